"""Parser of JSON payloads into Arrow columns, with the results of Spark's `from_json`."""
