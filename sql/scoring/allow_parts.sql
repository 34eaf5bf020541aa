-- $folders: whose files a query may read all the same: a large dataset's sequences lie beside its file.
set allowed_directories = $folders;
