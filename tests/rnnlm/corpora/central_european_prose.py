"""Sentences of ordinary prose in languages whose older files are rarely in cp1252, and those files' encodings."""

PROSE_ENCODINGS = {
    "cs": ("cp1250", "iso8859-2"),
    "sk": ("cp1250", "iso8859-2"),
    "pl": ("cp1250", "iso8859-2"),
    "hu": ("cp1250", "iso8859-2"),
    "ro": ("cp1250", "iso8859-2"),
    "hr": ("cp1250", "iso8859-2"),
    "ru": ("cp1251", "koi8-r"),
    "el": ("cp1253",),
    "tr": ("cp1254",),
    "lt": ("cp1257",),
}
PROSE = {
    "cs": """Včera večer jsme seděli u stolu a dlouho mluvili o dětech.
Na nádraží čekalo mnoho lidí, protože vlak měl zpoždění.
Moje sestra bydlí v malém městě nedaleko Brna.
Koupil jsem si nové boty, ale jsou mi trochu malé.
Učitelka řekla žákům, aby otevřeli knihy na straně deset.
V zimě chodíme lyžovat do hor, v létě jezdíme k moři.
Pes ležel pod stromem a čekal, až se pán vrátí domů.
Když začalo pršet, schovali jsme se do staré stodoly.
Nevím, jestli má smysl o tom dál mluvit.
Babička peče každou neděli jablečný koláč.
Soused opravuje střechu a jeho syn mu pomáhá.
Tento obchod otevírá v osm hodin ráno.
Přišel pozdě, ale nikdo se na něj nezlobil.
Po obědě půjdeme na procházku kolem rybníka.
Doktor mi předepsal léky a poradil mi, abych odpočíval.
Dopis přišel až za tři týdny po svátcích.
V knihovně bylo ticho a světlo padalo na podlahu.
Jeho otec pracoval celý život v továrně na sklo.
Zítra ráno musím vstát velmi brzy.
Okna jsou špinavá, ale na mytí není čas.""",
    "sk": """Včera večer sme sedeli pri stole a dlho sme sa rozprávali.
Na stanici čakalo veľa ľudí, lebo vlak meškal.
Moja sestra býva v malom meste neďaleko Nitry.
Kúpil som si nové topánky, ale sú mi trochu malé.
Učiteľka povedala žiakom, aby otvorili knihy.
V zime chodíme lyžovať do hôr, v lete jazdíme k moru.
Pes ležal pod stromom a čakal, kým sa pán vráti domov.
Keď začalo pršať, schovali sme sa do starej stodoly.
Neviem, či má zmysel o tom ďalej hovoriť.
Babka pečie každú nedeľu jablkový koláč.
Sused opravuje strechu a jeho syn mu pomáha.
Tento obchod otvárajú o ôsmej hodine ráno.
Prišiel neskoro, ale nikto sa naňho nehneval.
Po obede pôjdeme na prechádzku okolo rybníka.
Lekár mi predpísal lieky a poradil mi odpočívať.
List prišiel až tri týždne po sviatkoch.
V knižnici bolo ticho a svetlo padalo na podlahu.
Jeho otec pracoval celý život v továrni na sklo.
Zajtra ráno musím vstať veľmi skoro.
Okná sú špinavé, ale na umývanie nie je čas.""",
    "pl": """Wczoraj wieczorem siedzieliśmy przy stole i długo rozmawialiśmy.
Na dworcu czekało wielu ludzi, bo pociąg się spóźniał.
Moja siostra mieszka w małym mieście pod Krakowem.
Kupiłem sobie nowe buty, ale są trochę za małe.
Nauczycielka kazała uczniom otworzyć książki.
Zimą jeździmy na narty, a latem nad morze.
Pies leżał pod drzewem i czekał na swojego pana.
Kiedy zaczęło padać, schowaliśmy się w starej stodole.
Nie wiem, czy jest sens dalej o tym mówić.
Babcia piecze w każdą niedzielę ciasto z jabłkami.
Sąsiad naprawia dach, a jego syn mu pomaga.
Ten sklep otwierają o ósmej rano.
Przyszedł późno, ale nikt się na niego nie gniewał.
Po obiedzie pójdziemy na spacer dookoła stawu.
Lekarz przepisał mi leki i kazał odpoczywać.
List przyszedł dopiero trzy tygodnie po świętach.
W bibliotece było cicho, a światło padało na podłogę.
Jego ojciec pracował całe życie w hucie szkła.
Jutro rano muszę wstać bardzo wcześnie.
Okna są brudne, lecz na mycie brakuje czasu.""",
    "hu": """Tegnap este az asztalnál ültünk, és sokáig beszélgettünk.
Az állomáson sokan vártak, mert késett a vonat.
A nővérem egy kisvárosban lakik, nem messze Pécstől.
Vettem egy új cipőt, de egy kicsit szűk.
A tanárnő azt mondta, nyissuk ki a könyvet.
Télen síelni járunk, nyáron a tengerhez utazunk.
A kutya a fa alatt feküdt, és a gazdáját várta.
Amikor esni kezdett, egy régi pajtába bújtunk.
Nem tudom, van-e értelme tovább beszélni róla.
A nagymama minden vasárnap almás süteményt süt.
A szomszéd a tetőt javítja, és a fia segít neki.
Ez az üzlet reggel nyolckor nyit.
Későn jött, de senki sem haragudott rá.
Ebéd után sétálunk egyet a tó körül.
Az orvos gyógyszert írt fel, és pihenést javasolt.
A levél csak három héttel az ünnepek után jött meg.
A könyvtárban csend volt, és fény esett a padlóra.
Az apja egész életében egy üveggyárban dolgozott.
Holnap reggel nagyon korán kell felkelnem.
Az ablakok piszkosak, de nincs idő a mosásra.""",
    "ro": """Aseară am stat la masă şi am vorbit mult despre copii.
La gară aşteptau mulţi oameni, pentru că trenul întârzia.
Sora mea locuieşte într-un oraş mic lângă Cluj.
Mi-am cumpărat pantofi noi, dar sunt puţin cam mici.
Profesoara le-a spus elevilor să deschidă cărţile.
Iarna mergem la schi, iar vara plecăm la mare.
Câinele stătea sub copac şi îşi aştepta stăpânul.
Când a început ploaia, ne-am ascuns într-o şură veche.
Nu ştiu dacă are rost să mai vorbim despre asta.
Bunica face în fiecare duminică o plăcintă cu mere.
Vecinul repară acoperişul, iar fiul lui îl ajută.
Magazinul acesta se deschide la opt dimineaţa.
A venit târziu, dar nimeni nu s-a supărat pe el.
După prânz facem o plimbare în jurul lacului.
Doctorul mi-a dat medicamente şi m-a sfătuit să mă odihnesc.
Scrisoarea a sosit abia la trei săptămâni după sărbători.
În bibliotecă era linişte, iar lumina cădea pe podea.
Tatăl lui a lucrat toată viaţa într-o fabrică de sticlă.
Mâine dimineaţă trebuie să mă trezesc foarte devreme.
Ferestrele sunt murdare, dar nu avem timp să le spălăm.""",
    "hr": """Sinoć smo sjedili za stolom i dugo pričali o djeci.
Na kolodvoru je čekalo mnogo ljudi jer je vlak kasnio.
Moja sestra živi u malom gradu blizu Zadra.
Kupio sam nove cipele, ali su mi malo tijesne.
Učiteljica je rekla učenicima da otvore knjige.
Zimi idemo na skijanje, a ljeti putujemo na more.
Pas je ležao pod stablom i čekao gospodara.
Kad je počela kiša, sklonili smo se u staru štalu.
Ne znam ima li smisla dalje govoriti o tome.
Baka svake nedjelje peče kolač od jabuka.
Susjed popravlja krov, a sin mu pomaže.
Ova se trgovina otvara u osam ujutro.
Došao je kasno, ali nitko se nije ljutio na njega.
Poslije ručka idemo u šetnju oko jezera.
Liječnik mi je propisao lijekove i savjetovao odmor.
Pismo je stiglo tek tri tjedna poslije blagdana.
U knjižnici je bilo tiho, a svjetlo je padalo na pod.
Njegov je otac cijeli život radio u tvornici stakla.
Sutra ujutro moram ustati vrlo rano jer putujem u Beč.
Prozori su prljavi, ali za čišćenje nema vremena.""",
    "ru": """Вчера вечером мы сидели за столом и долго говорили о детях.
На вокзале ждало много людей, потому что поезд опаздывал.
Моя сестра живёт в маленьком городе недалеко от Твери.
Я купил себе новые ботинки, но они немного тесные.
Учительница велела ученикам открыть книги.
Зимой мы ездим кататься на лыжах, а летом на море.
Собака лежала под деревом и ждала хозяина.
Когда начался дождь, мы спрятались в старом сарае.
Не знаю, есть ли смысл говорить об этом дальше.
Бабушка каждое воскресенье печёт яблочный пирог.
Сосед чинит крышу, а сын ему помогает.
Этот магазин открывается в восемь утра.
Он пришёл поздно, но никто на него не сердился.
После обеда мы пойдём гулять вокруг пруда.
Врач выписал мне лекарства и посоветовал отдыхать.
Письмо пришло только через три недели после праздников.
В библиотеке было тихо, и свет падал на пол.
Его отец всю жизнь работал на стекольном заводе.
Завтра утром мне надо встать очень рано.
Окна грязные, но мыть их некогда.""",
    "el": """Χθες το βράδυ καθίσαμε στο τραπέζι και μιλήσαμε πολλή ώρα.
Στον σταθμό περίμεναν πολλοί, γιατί το τρένο είχε αργήσει.
Η αδελφή μου μένει σε μια μικρή πόλη κοντά στη Λάρισα.
Αγόρασα καινούργια παπούτσια, αλλά με στενεύουν λίγο.
Η δασκάλα είπε στα παιδιά να ανοίξουν τα βιβλία.
Τον χειμώνα πάμε για σκι και το καλοκαίρι στη θάλασσα.
Ο σκύλος ήταν κάτω από το δέντρο και περίμενε.
Όταν άρχισε η βροχή, κρυφτήκαμε σε μια παλιά αποθήκη.
Δεν ξέρω αν έχει νόημα να το συζητάμε άλλο.
Η γιαγιά φτιάχνει κάθε Κυριακή μηλόπιτα.
Ο γείτονας φτιάχνει τη στέγη και ο γιος του βοηθάει.
Αυτό το μαγαζί ανοίγει στις οκτώ το πρωί.
Ήρθε αργά, όμως κανείς δεν του θύμωσε.
Μετά το φαγητό θα πάμε βόλτα γύρω από τη λίμνη.
Ο γιατρός μού έδωσε φάρμακα και μου είπε να ξεκουραστώ.
Το γράμμα έφτασε τρεις εβδομάδες μετά τις γιορτές.
Στη βιβλιοθήκη είχε ησυχία και το φως έπεφτε στο πάτωμα.
Ο πατέρας του δούλευε μια ζωή σε εργοστάσιο γυαλιού.
Αύριο το πρωί πρέπει να ξυπνήσω πολύ νωρίς.
Τα παράθυρα είναι βρώμικα, αλλά δεν έχουμε χρόνο.""",
    "tr": """Dün akşam masada oturduk ve uzun uzun konuştuk.
İstasyonda çok kişi bekliyordu, çünkü tren gecikmişti.
Kız kardeşim Bursa yakınında küçük bir şehirde oturuyor.
Yeni ayakkabı aldım ama biraz dar geliyor.
Öğretmen öğrencilere kitaplarını açmalarını söyledi.
Kışın kayağa, yazın denize gideriz.
Köpek ağacın altında yatıyor, sahibini bekliyordu.
Yağmur başlayınca eski bir ahıra sığındık.
Bunu konuşmanın bir anlamı var mı bilmiyorum.
Büyükannem her pazar elmalı pasta yapar.
Komşu çatıyı onarıyor, oğlu da ona yardım ediyor.
Bu dükkân sabah sekizde açılıyor.
Geç geldi ama kimse ona kızmadı.
Yemekten sonra gölün çevresinde yürüyeceğiz.
Doktor bana ilaç yazdı ve dinlenmemi önerdi.
Mektup bayramdan ancak üç hafta sonra geldi.
Kütüphane sessizdi, ışık yere düşüyordu.
Babası ömür boyu bir cam fabrikasında çalıştı.
Yarın sabah çok erken kalkmam gerekiyor.
Pencereler kirli ama silmeye vakit yok.""",
    "lt": """Vakar vakare sėdėjome prie stalo ir ilgai kalbėjome.
Stotyje laukė daug žmonių, nes traukinys vėlavo.
Mano sesuo gyvena mažame mieste netoli Kauno.
Nusipirkau naujus batus, bet jie truputį per maži.
Mokytoja liepė mokiniams atversti knygas.
Žiemą važiuojame slidinėti, o vasarą prie jūros.
Šuo gulėjo po medžiu ir laukė šeimininko.
Kai pradėjo lyti, pasislėpėme senoje daržinėje.
Nežinau, ar verta apie tai toliau kalbėti.
Močiutė kiekvieną sekmadienį kepa obuolių pyragą.
Kaimynas taiso stogą, o sūnus jam padeda.
Ši parduotuvė atidaroma aštuntą valandą ryto.
Jis atėjo vėlai, bet niekas ant jo nepyko.
Po pietų eisime pasivaikščioti aplink ežerą.
Gydytojas išrašė vaistų ir patarė ilsėtis.
Laiškas atėjo tik praėjus trims savaitėms po švenčių.
Bibliotekoje buvo tylu, ir šviesa krito ant grindų.
Jo tėvas visą gyvenimą dirbo stiklo fabrike.
Rytoj rytą turiu labai anksti keltis.
Langai nešvarūs, bet plauti nėra laiko.""",
}
# Single sentences on which no rule was tuned.
UNSEEN = {
    "cs": """Ministr financí včera představil návrh rozpočtu na příští rok.
Do mísy nasypte mouku, přidejte vejce a špetku soli.
Brankář chytil v poslední minutě pokutový kop.
Ředitel školy poděkoval všem dobrovolníkům za pomoc.
Počítač se znovu spustí po dokončení aktualizace.
Na Moravě se očekávají silné bouřky a krupobití.
Řidič kamionu neubrzdil a narazil do svodidel.
Žádost musíte podepsat a odeslat poštou do konce měsíce.
Nemocnice hledá zdravotní sestry na dětské oddělení.
Kočka spí celé odpoledne na parapetu.""",
    "sk": """Minister financií včera predstavil návrh rozpočtu na budúci rok.
Do misy nasypte múku, pridajte vajcia a štipku soli.
Brankár chytil v poslednej minúte pokutový kop.
Riaditeľ školy poďakoval všetkým dobrovoľníkom za pomoc.
Počítač sa po dokončení aktualizácie znova spustí.
Na východe sa očakávajú silné búrky a krupobitie.
Vodič kamióna nestihol zabrzdiť a narazil do zvodidiel.
Žiadosť musíte podpísať a odoslať poštou do konca mesiaca.
Nemocnica hľadá zdravotné sestry na detské oddelenie.
Mačka spí celé popoludnie na parapete.""",
    "pl": """Minister finansów przedstawił wczoraj projekt budżetu na przyszły rok.
Do miski wsyp mąkę, dodaj jajka i szczyptę soli.
Bramkarz obronił rzut karny w ostatniej minucie.
Dyrektor szkoły podziękował wszystkim za pomoc.
Komputer uruchomi się ponownie po zakończeniu aktualizacji.
Na wschodzie spodziewane są gwałtowne burze i grad.
Kierowca ciężarówki nie zdążył zahamować.
Wniosek należy podpisać i wysłać pocztą do końca miesiąca.
Szpital szuka pielęgniarek na oddział dziecięcy.
Kot śpi całe popołudnie na parapecie.""",
    "hu": """A pénzügyminiszter tegnap bemutatta a jövő évi költségvetést.
A lisztet szórja egy tálba, adja hozzá a tojást és egy csipet sót.
A kapus az utolsó percben kivédte a büntetőt.
Az igazgató megköszönte az önkéntesek segítségét.
A számítógép a frissítés után újraindul.
Keleten erős zivatarok és jégeső várható.
A teherautó sofőrje nem tudott időben fékezni.
A kérelmet alá kell írni és postán elküldeni.
A kórház nővéreket keres a gyermekosztályra.
A macska egész délután az ablakban alszik.""",
    "ro": """Ministrul de finanţe a prezentat ieri bugetul pentru anul viitor.
Puneţi făina într-un castron, adăugaţi ouăle şi puţină sare.
Portarul a apărat o lovitură de pedeapsă în ultimul minut.
Directorul şcolii a mulţumit tuturor voluntarilor.
Calculatorul reporneşte după terminarea actualizării.
În est sunt aşteptate furtuni puternice şi grindină.
Şoferul camionului nu a reuşit să frâneze la timp.
Cererea trebuie semnată şi trimisă prin poştă până luni.
Spitalul caută asistente pentru secţia de copii.
Pisica doarme toată după-amiaza pe pervaz.""",
    "hr": """Ministar financija jučer je predstavio proračun za iduću godinu.
U zdjelu stavite brašno, dodajte jaja i prstohvat soli.
Vratar je obranio kazneni udarac u posljednjoj minuti.
Ravnatelj škole zahvalio je svima na pomoći.
Računalo će se ponovno pokrenuti nakon nadogradnje.
Na istoku se očekuju snažne oluje i tuča.
Vozač kamiona nije stigao zakočiti na vrijeme.
Zahtjev morate potpisati i poslati poštom do kraja mjeseca.
Bolnica traži medicinske sestre za dječji odjel.
Mačka cijelo poslijepodne spava na prozoru.""",
    "ru": """Министр финансов вчера представил проект бюджета на следующий год.
Насыпьте муку в миску, добавьте яйца и щепотку соли.
Вратарь отбил пенальти на последней минуте.
Директор школы поблагодарил всех за помощь.
Компьютер перезагрузится после обновления.
На востоке ожидаются сильные грозы и град.
Водитель грузовика не успел затормозить.
Заявление нужно подписать и отправить по почте.
Больница ищет медсестёр в детское отделение.
Кошка весь день спит на подоконнике.""",
    "el": """Ο υπουργός παρουσίασε χθες τον προϋπολογισμό του επόμενου έτους.
Βάλτε το αλεύρι σε ένα μπολ και προσθέστε τα αυγά.
Ο τερματοφύλακας απέκρουσε το πέναλτι.
Ο διευθυντής του σχολείου ευχαρίστησε όλους τους εθελοντές.
Ο υπολογιστής θα επανεκκινηθεί μετά την ενημέρωση.
Στα ανατολικά αναμένονται ισχυρές καταιγίδες.
Ο οδηγός του φορτηγού δεν πρόλαβε να φρενάρει.
Η αίτηση πρέπει να υπογραφεί και να σταλεί.
Το νοσοκομείο ζητά νοσοκόμες για τα παιδιά.
Η γάτα κοιμάται όλο το απόγευμα στο παράθυρο.""",
    "tr": """Maliye bakanı dün gelecek yılın bütçesini açıkladı.
Unu bir kaba koyun, yumurtaları ve bir tutam tuz ekleyin.
Kaleci son dakikada penaltıyı kurtardı.
Okul müdürü bütün gönüllülere teşekkür etti.
Bilgisayar güncellemeden sonra yeniden başlatılacak.
Doğuda şiddetli fırtına ve dolu bekleniyor.
Kamyon şoförü zamanında fren yapamadı.
Dilekçeyi imzalayıp ay sonuna kadar göndermelisiniz.
Hastane çocuk servisi için hemşire arıyor.
Kedi bütün öğleden sonra pencerede uyuyor.""",
    "lt": """Finansų ministras vakar pristatė kitų metų biudžetą.
Į dubenį suberkite miltus, įmuškite kiaušinius ir įberkite druskos.
Vartininkas paskutinę minutę atmušė baudinį.
Mokyklos direktorius padėkojo visiems savanoriams.
Kompiuteris po atnaujinimo bus paleistas iš naujo.
Rytuose numatomos smarkios audros ir kruša.
Sunkvežimio vairuotojas nespėjo sustabdyti.
Prašymą reikia pasirašyti ir išsiųsti paštu iki mėnesio pabaigos.
Ligoninė ieško slaugytojų vaikų skyriui.
Katė visą popietę miega ant palangės.""",
}


def one_line_texts(language: str, length: int) -> list[str]:
    """Return for each sentence a text of one line, at most `length` characters long, that begins with it."""
    sentences = PROSE[language].splitlines()
    doubled = [*sentences, *sentences]
    return [" ".join(doubled[first : first + 12])[:length].strip() for first in range(len(sentences))]
