"""The model hub: what it lists, downloads that survive anything, the cache they share with other clients.

`settings` says where, `client` asks over HTTP, `listing` and `remote` read without downloading, `plan` and `download`
fetch, `queue` lines downloads up, `cache` owns the folders, `removal` frees space. Nothing here blocks the event loop.
"""
