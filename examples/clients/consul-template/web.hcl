# A configuration of consul-template: it renders the healthy instances of the service "web" after each change, and appends them to a log, in
# the place of a command that reloads a load balancer: docs/consul.md. The address and the file of the token are in CONSUL_HTTP_ADDR and
# CONSUL_HTTP_TOKEN_FILE.
log_level = "warn"

template {
  contents    = "web:{{range service \"web\"}} {{.ID}} {{.Address}}:{{.Port}} {{.Status}} {{.Tags}}{{end}}\n"
  destination = "web.txt"
  exec {
    command = "cat web.txt >> rendered.txt"
  }
}
