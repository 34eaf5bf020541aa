"""What a home keeps: retention removes what nobody needs any more, a backup copies what must not be lost."""
