-- Insert the Arrow table `incoming`, with the columns of documents.
insert into documents by name
select
    document_id, split, source_file, source_number, byte_offset, byte_count, line_count, sha256, fingerprint, split_key,
    predicted_tokens, unknown_tokens, restoration_bits
from incoming
order by document_id;
