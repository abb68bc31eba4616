# The configuration of docs/terraform.md.
terraform {
  required_providers {
    mortise = { source = "mortise.local/mortise/mortise" }
  }
}

variable "page" {
  default = "web"
}

variable "hostname" {
  default = "shop.example.org"
}

resource "mortise_catalog_workload" "web" {
  count    = 2
  name     = "${var.page}-${count.index}"
  metadata = { by = "terraform" }
  data {
    addresses = [{ host = "127.0.0.1" }]
    ports     = [{ name = "http", port = 8081 + count.index }]
  }
}

resource "mortise_catalog_service" "web" {
  name = var.page
  data {
    selector = { prefixes = ["${var.page}-"] }
    ports    = [{ name = "http", port = 80 }]
  }
}

resource "mortise_edge_route" "shop" {
  name = "shop"
  data {
    hostname = var.hostname
    service  = { name = mortise_catalog_service.web.name, port = "http" }
  }
}

data "mortise_resources" "workloads" {
  type       = "catalog.v1.Workload"
  metadata   = { by = "terraform" }
  depends_on = [mortise_catalog_workload.web]
}

output "workloads" {
  value = [for found in data.mortise_resources.workloads.resources : found.name]
}

output "route_file" {
  value = provider::mortise::routes_file_name("default", "default", mortise_edge_route.shop.name)
}
