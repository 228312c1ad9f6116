"""The web console: a process of its own that looks at a cluster, and changes it, through `pybroker.client` alone. So it
shows Apache Kafka too; the broker knows nothing of it (tests/architecture).

| module | answers |
|---|---|
| `console_settings` | which cluster, where it listens, who must log in |
| `routes`, `serve` | its addresses; the process |
| `web` | what all pages share: `request_context`, `login_sessions`, `request_guard`, `page_templates` |
| `queries` | what pages show, asked of the cluster; knows nothing of HTTP |
| `screens` | one file for each subject: from an address by queries to a page, or from a form to a change |
| `templates`, `static` | HTML by Jinja, always escaped; one style sheet, one script, nothing from elsewhere |
"""
