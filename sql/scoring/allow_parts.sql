-- $folders: a query may read their files all the same: a large dataset's sequences are beside its file.
set allowed_directories = $folders;
