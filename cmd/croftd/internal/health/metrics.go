package health

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/croft-edge/croft/cmd/croftd/internal/module"
	"github.com/croft-edge/croft/pkg/nodestatus"
	"github.com/croft-edge/croft/pkg/resources/host"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/lifecycle"
	"github.com/croft-edge/croft/provision/refusals"
)

// collector derives the metrics from a status at each scrape; it keeps no counters of its own.
type collector struct {
	status  func(ctx context.Context) (nodestatus.Status, error)
	metrics []described
	// ready is the metric under whose name a failed scrape is reported.
	ready *prometheus.Desc
}

// described is a metric with its description for Prometheus.
type described struct {
	module.Metric
	desc *prometheus.Desc
}

const readyMetric = "croft_ready"

// scrapeTimeout bounds how long a scrape waits for the status.
const scrapeTimeout = 5 * time.Second

func newCollector(modules []module.Descriptor, status func(ctx context.Context) (nodestatus.Status, error)) *collector {
	c := &collector{status: status}
	for _, m := range Metrics(modules) {
		desc := prometheus.NewDesc(m.Name, m.Help, m.Labels, nil)
		c.metrics = append(c.metrics, described{m, desc})
		if m.Name == readyMetric {
			c.ready = desc
		}
	}
	return c
}

// Metrics are all metrics that /metrics derives from the status: the node's own and those of its
// modules. Those of Go and the process come in addition.
func Metrics(modules []module.Descriptor) []module.Metric {
	all := slices.Concat(readinessMetrics(modules), workloadMetrics(), nodeMetrics(), mirrorMetrics())
	for _, m := range modules {
		all = append(all, m.Metrics...)
	}
	return all
}

func readinessMetrics(modules []module.Descriptor) []module.Metric {
	return []module.Metric{
		{Name: "croft_build_info", Help: "1; the labels are of the running program", Labels: []string{"version", "commit"}, Read: func(s nodestatus.Status, value module.Value) {
			value(1, s.Version, s.Commit)
		}},
		{Name: readyMetric, Help: "1 while new reservations are taken", Read: func(s nodestatus.Status, value module.Value) {
			value(module.Truth(Judge(s, time.Now(), modules).Ready))
		}},
		{Name: "croft_check", Help: "0 ok, 1 warning, 2 failing", Labels: []string{"check"}, Read: func(s nodestatus.Status, value module.Value) {
			for _, check := range Judge(s, time.Now(), modules).Checks {
				value(map[host.Level]float64{host.Good: 0, host.Warning: 1, host.Failing: 2}[check.Level], check.Name)
			}
		}},
	}
}

func workloadMetrics() []module.Metric {
	return []module.Metric{
		{Name: "croft_workloads", Help: "deployed workloads that haven't expired", Labels: []string{"type"}, Read: func(s nodestatus.Status, value module.Value) {
			counts := s.Counters
			for kind, n := range map[string]int64{
				"container": counts.Container, "volume": counts.Volume, "network": counts.Network,
				"zdb": counts.ZDB, "kubernetes": counts.VM, "debug": counts.Debug,
			} {
				value(float64(n), kind)
			}
		}},
		{Name: "croft_records", Help: "records of the store", Labels: []string{"phase"}, Read: func(s nodestatus.Status, value module.Value) {
			phases := map[string]int{}
			for _, p := range lifecycle.Phases() {
				phases[string(p)] = 0
			}
			for phase, n := range s.Store.Records {
				phases[phase] = n
			}
			for phase, n := range phases {
				value(float64(n), phase)
			}
		}},
		{Name: "croft_attempts", Help: "attempts since the last success, summed over workloads that aren't deployed", Read: func(s nodestatus.Status, value module.Value) {
			attempts := 0
			for _, w := range s.Workloads {
				if w.Phase != string(lifecycle.Deployed) {
					attempts += w.Attempts
				}
			}
			value(float64(attempts))
		}},
		{Name: "croft_undelivered_results", Help: "results that the explorer doesn't have yet", Read: func(s nodestatus.Status, value module.Value) {
			value(float64(s.Undelivered))
		}},
		{Name: "croft_orphans", Help: "things with croft's label and no record", Read: func(s nodestatus.Status, value module.Value) {
			value(float64(len(s.Orphans)))
		}},
		{Name: "croft_refused_reservations_total", Help: "reservations that weren't taken, since the node's start", Labels: []string{"cause"}, Counter: true, Read: func(s nodestatus.Status, value module.Value) {
			for _, cause := range refusals.Causes() {
				value(float64(s.Store.Refused[string(cause)]), string(cause))
			}
		}},
		{Name: "croft_drift_total", Help: "workloads that were gone or changed under the node, since its start", Labels: []string{"type"}, Counter: true, Read: func(s nodestatus.Status, value module.Value) {
			for _, t := range workload.Types() {
				value(float64(s.Drifts[string(t)]), string(t))
			}
		}},
	}
}

func nodeMetrics() []module.Metric {
	return []module.Metric{
		{Name: "croft_quarantined_files", Help: "files of the store that could not be read", Read: func(s nodestatus.Status, value module.Value) {
			value(float64(len(s.Store.Quarantined)))
		}},
		{Name: "croft_clock_trusted", Help: "1 while dates are judged by the clock", Read: func(s nodestatus.Status, value module.Value) {
			value(module.Truth(s.Clock.Trusted))
		}},
		{Name: "croft_clock_level", Help: "what the clock is trusted for: 0 nothing, 1 judging dates and stopping workloads, 2 removing data too", Read: func(s nodestatus.Status, value module.Value) {
			value(map[string]float64{"stop": 1, "remove": 2}[s.Clock.Level])
		}},
		{Name: "croft_explorer_last_contact_seconds", Help: "time of the last good answer, in seconds since 1970; 0 for never", Read: func(s nodestatus.Status, value module.Value) {
			contact := 0.0
			if s.Explorer.LastContact != nil {
				contact = float64(s.Explorer.LastContact.UnixNano()) / 1e9
			}
			value(contact)
		}},
		{Name: "croft_door_restarts_total", Help: "starts of the door's process after one that ended too early, since the node's start", Counter: true, Read: func(s nodestatus.Status, value module.Value) {
			value(float64(s.DoorRestarts))
		}},
	}
}

// mirrorMetrics are of each mirror of the store, by its instance's name; none without mirrors.
func mirrorMetrics() []module.Metric {
	each := func(name, help string, read func(m host.MirrorSpec) float64) module.Metric {
		return module.Metric{Name: name, Help: help, Labels: []string{"instance"}, Read: func(s nodestatus.Status, value module.Value) {
			for _, m := range s.Mirrors {
				value(read(m), m.Instance)
			}
		}}
	}
	return []module.Metric{
		each("croft_mirror_up", "1 while the mirror of the store can be written to", func(m host.MirrorSpec) float64 {
			return module.Truth(m.Up)
		}),
		each("croft_mirror_lag", "files of the store that have changed and aren't on the mirror yet", func(m host.MirrorSpec) float64 {
			return float64(m.Lag)
		}),
		each("croft_mirror_behind_seconds", "age of the oldest change that isn't on the mirror yet; 0 without one", func(m host.MirrorSpec) float64 {
			if m.Oldest.IsZero() {
				return 0
			}
			return max(0, time.Since(m.Oldest).Seconds()) // a clock may have been set back
		}),
		each("croft_mirror_complete", "1 while a store can be restored from the mirror", func(m host.MirrorSpec) float64 {
			return module.Truth(m.Complete)
		}),
	}
}

// Describe sends all descriptions.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range c.metrics {
		ch <- m.desc
	}
}

// Collect makes the metrics of one scrape.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	s, err := c.status(ctx)
	if err != nil {
		ch <- prometheus.NewInvalidMetric(c.ready, err)
		return
	}
	for _, m := range c.metrics {
		kind := prometheus.GaugeValue
		if m.Counter {
			kind = prometheus.CounterValue
		}
		m.Read(s, func(value float64, labels ...string) {
			ch <- prometheus.MustNewConstMetric(m.desc, kind, value, labels...)
		})
	}
}
