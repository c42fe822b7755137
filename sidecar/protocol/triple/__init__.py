"""Triple, gRPC and their REST form: request heads, deadlines, edits, replies made here, endings."""
