"""What results come to, as rows, sentences, tables and charts."""
