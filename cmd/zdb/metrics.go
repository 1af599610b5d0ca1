package main

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/pkg/errors"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/croft-edge/croft/pkg/limit/seen"
	"github.com/croft-edge/croft/zdb"
	"github.com/croft-edge/croft/zdb/loop"
)

// metrics serves /metrics.
type metrics struct {
	listener net.Listener
	handler  http.Handler
}

func listenMetrics(ctx context.Context, address string, c *collector) (*metrics, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(c, seen.Collector("croft_limit_reached_total"), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: 4}))
	return &metrics{listener: listener, handler: mux}, nil
}

func (m *metrics) run(ctx context.Context) error {
	s := &http.Server{Handler: m.handler, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	if err := s.Serve(m.listener); !errors.Is(err, http.ErrServerClosed) {
		return errors.Wrap(err, "cannot serve /metrics")
	}
	return nil
}

// scrapeTimeout bounds how long a scrape waits for the loop's thread.
const scrapeTimeout = 5 * time.Second

// collector makes the metrics of a scrape from the counters of loop and server.
type collector struct {
	loop   *loop.Loop
	server *zdb.Server
}

// Describe sends nothing: the metrics are only known at a scrape.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// Collect makes the metrics of one scrape.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	send := func(kind prometheus.ValueType, name, help string, value float64, labels ...string) {
		var names, values []string
		for i := 0; i < len(labels); i += 2 {
			names, values = append(names, labels[i]), append(values, labels[i+1])
		}
		ch <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, names, nil), kind, value, values...)
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	s, err := c.server.Stats(ctx)
	if err != nil {
		ch <- prometheus.NewInvalidMetric(prometheus.NewInvalidDesc(err), err)
		return
	}
	send(prometheus.GaugeValue, "zdb_build_info", "1; the labels are of the running program", 1, "version", version, "commit", commit)
	c.ofLoop(send)
	ofServer(send, s)
	for _, ns := range s.Namespaces {
		ofNamespace(send, ns)
	}
}

type sender = func(kind prometheus.ValueType, name, help string, value float64, labels ...string)

func (c *collector) ofLoop(send sender) {
	s := c.loop.Stats()
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	send(gauge, "zdb_connections", "clients that are connected", float64(s.Connections))
	send(gauge, "zdb_buffer_bytes", "memory of the buffers of all connections", float64(s.Buffers))
	send(counter, "zdb_connections_accepted_total", "accepted connections", float64(s.Accepted))
	for why, n := range map[string]uint64{"limit": s.Refused, "accept": s.AcceptErrors} {
		send(counter, "zdb_connections_refused_total", "refused connections: over the limit, or accepting failed", float64(n), "why", why)
	}
	for why, n := range map[string]uint64{"malformed": s.Malformed, "buffers": s.Evicted, "idle": s.Idled, "flush": s.Unflushed, "stalled": s.Stalled, "displaced": s.Displaced} {
		send(counter, "zdb_connections_closed_total", "connections that the server closed", float64(n), "why", why)
	}
	send(counter, "zdb_requests_total", "requests that have run", float64(s.Requests))
	send(counter, "zdb_received_bytes_total", "bytes received from clients", float64(s.Received))
	send(counter, "zdb_sent_bytes_total", "bytes sent to clients", float64(s.Sent))
	send(counter, "zdb_rounds_total", "rounds of the event loop", float64(s.Rounds))
}

func ofServer(send sender, s zdb.Stats) {
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	for name, n := range s.Commands {
		send(counter, "zdb_commands_total", "commands that were sent", float64(n), "command", name)
	}
	for why, n := range map[string]uint64{"unknown": s.Unknown, "unauthorized": s.Unauthorized, "password": s.WrongPasswords} {
		send(counter, "zdb_commands_refused_total", "commands that aren't any, lacked an admin's rights, or gave a wrong password", float64(n), "why", why)
	}
	for what, n := range map[string]uint64{"read": s.ReadErrors, "write": s.WriteErrors} {
		send(counter, "zdb_disk_errors_total", "failed reads and writes of the disk", float64(n), "what", what)
	}
	send(counter, "zdb_data_read_bytes_total", "bytes read from data files, as in INFO", float64(s.Read))
	send(counter, "zdb_data_written_bytes_total", "bytes written to data files, as in INFO", float64(s.Written))
	send(gauge, "zdb_waiting", "clients in WAIT", float64(s.Waiting))
	send(gauge, "zdb_index_memory_bytes", "memory of keys", float64(s.Memory))
	send(gauge, "zdb_namespaces_damaged", "namespaces that can't be read", float64(s.Damaged))
}

func ofNamespace(send sender, ns zdb.NamespaceStats) {
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	name := ns.Name
	if !utf8.ValidString(name) {
		name = strconv.Quote(name)
	}
	of := []string{"namespace", name}
	send(gauge, "zdb_namespace_entries", "live entries", float64(ns.Entries), of...)
	send(gauge, "zdb_namespace_bytes", "their values", float64(ns.Bytes), of...)
	send(gauge, "zdb_namespace_limit_bytes", "how much there may be of values; 0 is no limit", float64(ns.Limit), of...)
	send(gauge, "zdb_namespace_disk_bytes", "disk space of the files", float64(ns.Disk), of...)
	send(gauge, "zdb_namespace_memory_bytes", "memory of keys", float64(ns.Memory), of...)
	send(counter, "zdb_namespace_disk_errors_total", "failed reads and writes of the disk", float64(ns.Errors), of...)
	send(counter, "zdb_namespace_damaged_total", "records that were found damaged", float64(ns.Faults), of...)
}
