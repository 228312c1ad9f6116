"""The web console. It is a separate process that shows and changes a cluster only through `pybroker.client`. Therefore
it also works with Apache Kafka, and the broker contains no code for the console (tests/architecture).

- `console_settings`: which cluster, which address to listen on, who must log in
- `routes`, `serve`: the URLs; the process
- `web`: code that all pages share: `request_context`, `login_sessions`, `request_guard`, `page_templates`
- `queries`: requests to the cluster for what pages show; independent of HTTP
- `screens`: one file per subject: from a URL by queries to a page, or from a form to a change
- `templates`, `static`: HTML by Jinja, always escaped; one style sheet, one script, nothing from other sites
"""
