package api

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/croft-edge/croft/explorer/longpoll"
	"github.com/croft-edge/croft/explorer/tunnel"
	"github.com/croft-edge/croft/pkg/limit/seen"
)

// Metrics are the explorer's numbers for Prometheus.
type Metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	limited  *prometheus.CounterVec
	writes   prometheus.Counter
	commits  prometheus.Counter
	commit   prometheus.Histogram
}

// NewMetrics makes the numbers, in a registry of their own.
func NewMetrics() *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "croft_explorer_requests_total", Help: "Requests by route and status."}, []string{"route", "status"}),
		seconds:  prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "croft_explorer_request_seconds", Help: "How long requests took, long polls with their wait.", Buckets: prometheus.ExponentialBuckets(0.0005, 4, 10)}, []string{"route"}),
		limited:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "croft_explorer_limited_total", Help: "Requests refused by a rate limit, by what was counted."}, []string{"by"}),
		writes:   prometheus.NewCounter(prometheus.CounterOpts{Name: "croft_explorer_writes_total", Help: "Writes that are durable."}),
		commits:  prometheus.NewCounter(prometheus.CounterOpts{Name: "croft_explorer_commits_total", Help: "Commits; one holds many writes."}),
		commit:   prometheus.NewHistogram(prometheus.HistogramOpts{Name: "croft_explorer_commit_seconds", Help: "How long commits took.", Buckets: prometheus.ExponentialBuckets(0.0002, 3, 10)}),
	}
	m.registry.MustRegister(m.requests, m.seconds, m.limited, m.writes, m.commits, m.commit,
		seen.Collector("croft_explorer_limit_reached_total"),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Committed counts a commit of the store.
func (m *Metrics) Committed(writes int, took time.Duration) {
	m.writes.Add(float64(writes))
	m.commits.Inc()
	m.commit.Observe(took.Seconds())
}

func (m *Metrics) watch(w *longpoll.Waiters) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(
		prometheus.GaugeOpts{Name: "croft_explorer_long_polls", Help: "Long polls that wait."},
		func() float64 { return float64(w.Waiting()) }))
}

func (m *Metrics) watchTunnels(h *tunnel.Hub) {
	m.registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "croft_explorer_tunnels", Help: "Nodes that keep a tunnel open."},
			func() float64 { open, _ := h.Open(); return float64(open) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "croft_explorer_tunnel_connections", Help: "Connections of users through tunnels."},
			func() float64 { _, through := h.Open(); return float64(through) }))
}

func (m *Metrics) request(route string, status int, took time.Duration) {
	m.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
	m.seconds.WithLabelValues(route).Observe(took.Seconds())
}

// refused counts a request that a rate limit refused.
func (m *Metrics) refused(by string) { m.limited.WithLabelValues(by).Inc() }

// page is the numbers in the form of Prometheus.
func (m *Metrics) page() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{DisableCompression: true})
}
