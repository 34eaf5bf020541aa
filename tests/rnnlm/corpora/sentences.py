"""Sentences in many languages, with the encodings in which older files of them are written."""

ENCODINGS = {  # For each encoding, the languages whose sentences are tested in it.
    "cp1252": ("da", "de", "en", "es", "fi", "fr", "is", "it", "nl", "no", "pt", "sv"),
    "iso8859-1": ("da", "de", "es", "fi", "fr", "is", "it", "nl", "no", "pt", "sv"),
    "cp850": ("da", "de", "es", "fr", "sv"),
    "mac_roman": ("de", "es", "fr", "pt"),
    "cp1250": ("cs", "hr", "hu", "pl", "ro", "sk"),
    "iso8859-2": ("cs", "hr", "hu", "pl"),
    "cp852": ("cs", "pl"),
    "cp1257": ("et", "lt", "lv"),
    "cp1254": ("tr",),
    "cp1251": ("bg", "ru", "uk"),
    "koi8-r": ("ru",),
    "koi8-u": ("uk",),
    "cp866": ("ru",),
    "iso8859-5": ("ru",),
    "cp1253": ("el",),
    "iso8859-7": ("el",),
    "cp1255": ("he",),
    "cp1256": ("ar",),
    "cp874": ("th",),
    "cp932": ("ja",),
    "euc_jp": ("ja",),
    "gb18030": ("zh",),
    "big5": ("tw",),
    "cp949": ("ko",),
}
SENTENCES = {
    "da": """Den gamle gartner køber brød på torvet hver lørdag.
Vi så en rød båd på søen, og børnene råbte højt.
Hun lægger nøglen på bordet og går ud i haven.
Færgen til øen sejler først klokken tolv.""",
    "de": """Der alte Bäcker öffnet früh am Morgen seine Tür.
Die Kinder müssen noch ihre Schuhe anziehen, sagte die Großmutter.
Über dem Fluß steht eine schöne weiße Brücke.
Wir hätten gern zwei Stück Käse und ein Glas süßen Saft.""",
    "en": """The café on the corner serves crème brûlée after noon.
Her résumé was naïve, but the fiancé liked it.""",
    "es": """El niño pequeño soñaba con una montaña de azúcar.
Mañana comeré en casa de mi tía, que vive aquí al lado.
¿Dónde está la estación? Allí, detrás del jardín.
La canción más bonita se oyó también en el último día.""",
    "fi": """Vanha kissa nukkuu pöydän alla koko päivän.
Äiti lähtee töihin ennen kuin pojat heräävät.
Järven jää on jo niin ohutta, ettei siellä pysy pystyssä.
Mökillä syödään kesällä paljon mustikoita ja mansikoita.""",
    "fr": """Le vieux boulanger a fermé sa boutique très tôt.
Où est passée la clé de l'église ? Elle était là hier.
Nous avons mangé des pâtes à la crème chez notre voisin français.
L'élève préfère rêver près de la fenêtre, même en été.""",
    "is": """Gamli maðurinn gengur niður að höfninni á hverjum degi.
Þau keyptu sér nýtt hús við ána í fyrra.
Það er kalt í dag, en sólin skín á fjöllin.
Börnin léku sér úti þar til mamma kallaði á þau.""",
    "it": """La città è più bella quando c'è il sole.
Perché non vieni giù a prendere un caffè?
Lunedì partirò presto, così sarò lì prima di te.
Quest'università esiste già da più di un secolo.""",
    "nl": """De zeeën rond het eiland zijn in de winter ruw.
Hij heeft twee ideeën voor een café in België.
Zij coördineert de reünie van beide scholen.
Eén keer per week eet mijn oma crème met kaneel.""",
    "no": """Den gamle båten ligger på øya hele året.
Vi gikk ned til sjøen før frokost og så på måkene.
Hun så at nøklene lå på kjøkkenbordet.
Å lære å gå på ski tar både tid og tålmodighet.""",
    "pt": """A avó não gosta de açúcar no café da manhã.
Amanhã vamos à praia com os nossos irmãos.
O coração dele bateu mais rápido na estação.
Você já viu três pássaros azuis no jardim?""",
    "sv": """Den gamla bagaren öppnar sin butik för tidigt på morgonen.
Vi åkte båt över sjön när det blåste som värst.
Flickan lånade två böcker på biblioteket i går.
Både fågeln och katten såg mycket trötta ut.""",
    "pl": """Stary piekarz zamyka sklep wcześnie wieczorem.
Dzieci śpią już od godziny, a pada deszcz i wieje wiatr.
Źle się czuję, więc zostanę dziś w łóżku.
Gdzie są książki, które położyłem na stole?""",
    "cs": """Starý pekař otevírá svůj obchod brzy ráno.
Děti běžely přes louku k řece a křičely.
Příští týden pojedeme za babičkou na venkov.
Kůň stojí u plotu a žere čerstvou trávu.""",
    "sk": """Starý pekár otvára svoj obchod veľmi skoro ráno.
Deti bežali cez lúku k rieke a kričali.
Budúci týždeň pôjdeme k starej mame na vidiek.
Kôň stojí pri plote a žerie čerstvú trávu.""",
    "hu": """Az öreg pék korán reggel nyitja ki a boltját.
A gyerekek átfutottak a réten, és kiáltoztak.
Jövő héten elmegyünk a nagymamához vidékre.
Hűvös szél fúj, és erősen esik az eső.""",
    "ro": """Bătrânul brutar îşi deschide prăvălia dis-de-dimineaţă.
Copiii au alergat peste câmp până la râu.
Săptămâna viitoare mergem la bunica, la ţară.
Vântul bate şi plouă de două zile.""",
    "hr": """Stari pekar otvara dućan rano ujutro.
Djeca su trčala preko livade i vikala iz sveg glasa.
Idući tjedan idemo k baki na selo, šetat ćemo šumom.
Žena kaže da će sutra doći još gostiju.""",
    "lt": """Senas kepėjas anksti rytą atidaro savo krautuvę.
Vaikai bėgo per pievą prie upės ir šaukė.
Kitą savaitę važiuosime pas močiutę į kaimą.
Pučia šaltas vėjas, ir jau dvi dienas lyja lietus.""",
    "lv": """Vecais maiznieks agri no rīta atver savu veikalu.
Bērni skrēja pāri pļavai uz upi un kliedza.
Nākamnedēļ mēs brauksim pie vecmāmiņas uz laukiem.
Pūš auksts vējš, un jau divas dienas līst lietus.""",
    "et": """Vana pagar avab oma poe varahommikul.
Lapsed jooksid üle niidu jõe äärde ja hüüdsid.
Järgmisel nädalal sõidame vanaema juurde maale.
Õhtul puhub külm tuul ja väljas on päris pime.""",
    "tr": """Yaşlı fırıncı dükkânını sabah erkenden açıyor.
Çocuklar çayırdan geçip ırmağa doğru koştular.
Gelecek hafta büyükannemizin köyüne gideceğiz.
Soğuk bir rüzgâr esiyor, iki gündür yağmur yağıyor.""",
    "ru": """Старый пекарь открывает свою лавку рано утром.
Дети бежали через луг к реке и громко кричали.
На следующей неделе мы поедем к бабушке в деревню.
Дует холодный ветер, и уже два дня идёт дождь.""",
    "uk": """Старий пекар відчиняє свою крамницю рано-вранці.
Діти бігли через луг до річки й голосно гукали.
Наступного тижня ми поїдемо до бабусі в село.
Віє холодний вітер, і вже два дні йде дощ.""",
    "bg": """Старият хлебар отваря дюкяна си рано сутринта.
Децата тичаха през ливадата към реката и викаха.
Следващата седмица ще отидем при баба на село.
Духа студен вятър и вече два дни вали дъжд.""",
    "el": """Ο γέρος φούρναρης ανοίγει το μαγαζί του νωρίς το πρωί.
Τα παιδιά έτρεξαν μέσα από το λιβάδι προς το ποτάμι.
Την άλλη εβδομάδα θα πάμε στη γιαγιά στο χωριό.
Φυσάει κρύος άνεμος και βρέχει εδώ και δύο μέρες.""",
    "he": """האופה הזקן פותח את החנות שלו מוקדם בבוקר.
הילדים רצו דרך השדה אל הנהר וצעקו.
בשבוע הבא ניסע אל סבתא בכפר.
רוח קרה נושבת וכבר יומיים יורד גשם.""",
    "ar": """يفتح الخباز العجوز متجره في الصباح الباكر.
ركض الأطفال عبر المرج نحو النهر وهم يصرخون.
في الأسبوع القادم سنذهب إلى الجدة في القرية.
تهب ريح باردة والمطر ينزل منذ يومين.""",
    "th": """คนทำขนมปังแก่เปิดร้านของเขาแต่เช้า
เด็กๆวิ่งผ่านทุ่งหญ้าไปที่แม่น้ำและร้องเสียงดัง
สัปดาห์หน้าเราจะไปหาคุณยายที่หมู่บ้าน
ลมหนาวพัดและฝนตกมาสองวันแล้ว""",
    "ja": """年を取ったパン屋は朝早く店を開けます。
子供たちは草原を走って川へ行き、大きな声で叫びました。
来週、私たちは田舎のおばあさんの家へ行きます。
冷たい風が吹いて、もう二日も雨が降っています。""",
    "zh": """老面包师每天早上很早就打开他的店门。
孩子们跑过草地,来到河边,大声地叫着。
下个星期我们要去乡下看望奶奶。
冷风吹着,已经下了两天的雨。""",
    "tw": """老麵包師每天早上很早就打開他的店門。
孩子們跑過草地,來到河邊,大聲地叫著。
下個星期我們要去鄉下看望奶奶。
冷風吹著,已經下了兩天的雨。""",
    "ko": """늙은 제빵사는 아침 일찍 가게 문을 연다.
아이들은 풀밭을 지나 강가로 달려가며 크게 소리쳤다.
다음 주에 우리는 시골에 계신 할머니 댁에 간다.
찬 바람이 불고 벌써 이틀째 비가 내린다.""",
}
