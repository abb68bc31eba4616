// Follows services with Prometheus' own discovery by Consul, and prints the targets whenever they change: docs/consul.md. Ends when there
// are no targets any more. The address and the file of the token are in CONSUL_HTTP_ADDR and CONSUL_HTTP_TOKEN_FILE.
package main

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/discovery"
	"github.com/prometheus/prometheus/discovery/consul"
	"github.com/prometheus/prometheus/discovery/targetgroup"
	"go.yaml.in/yaml/v2"
)

// An entry of consul_sd_configs. Without a list of services the discovery watches that of the server.
const entry = `
server: %s
tags: [v1]
refresh_interval: 100ms
authorization: { credentials_file: %s }
`

func main() {
	log.SetFlags(0)
	var config consul.SDConfig
	check(yaml.UnmarshalStrict(fmt.Appendf(nil, entry, os.Getenv("CONSUL_HTTP_ADDR"), os.Getenv("CONSUL_HTTP_TOKEN_FILE")), &config))
	registry := prometheus.NewRegistry()
	metrics := config.NewDiscovererMetrics(registry, discovery.NewRefreshMetrics(registry))
	check(metrics.Register())
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	discoverer, err := config.NewDiscoverer(discovery.DiscovererOptions{Logger: logger, Metrics: metrics})
	check(err)

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	updates := make(chan []*targetgroup.Group)
	go discoverer.Run(ctx, updates)
	groups := map[string]*targetgroup.Group{}
	var shown string
	for update := range updates {
		for _, group := range update {
			groups[group.Source] = group
		}
		targets := strings.Join(lines(groups), ", ")
		if targets == shown {
			continue
		}
		fmt.Printf("targets: [%s]\n", targets)
		if targets == "" {
			return
		}
		shown = targets
	}
}

// Each target on a line: its address, and labels by which scrapes choose and name it.
func lines(groups map[string]*targetgroup.Group) []string {
	var found []string
	for _, group := range groups {
		for _, target := range group.Targets {
			labels := group.Labels.Merge(target)
			line := string(labels[model.AddressLabel])
			for _, name := range []string{"service", "service_id", "tags", "dc", "health"} {
				line += " " + string(labels[model.LabelName("__meta_consul_"+name)])
			}
			found = append(found, line)
		}
	}
	slices.Sort(found)
	return found
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
