"""The web console: a process of its own that looks at a cluster, and changes it, through `pybroker.client` alone. So it
shows Apache Kafka too; the broker knows nothing of it (tests/architecture).

| module | answers |
|---|---|
| `settings` | which cluster, where it listens, who must log in |
| `app`, `serve` | its addresses; the process |
| `web` | what all pages share: who asks (`visits`, `sessions`), what is let in (`guard`), how they are made (`pages`) |
| `facts` | what pages show, asked of the cluster; knows nothing of HTTP |
| `screens` | one file for each subject: from an address to facts to a page, or from a form to a change |
| `templates`, `static` | HTML by Jinja, always escaped; one style sheet, one script, nothing from elsewhere |
"""
