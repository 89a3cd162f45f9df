"""The façade without HTTP."""
