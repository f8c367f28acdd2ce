"""The dialogs that explain: the sheet of keys, the log, what this program is."""
