-- Set the folder in which schema/shifted_sequences_of_parts looks for parts. $folder: escaped, as for a glob pattern.
set variable dataset_folder = $folder;
