package health

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/nodestatus"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/lifecycle"
)

// collector makes metrics of a status at each scrape: nothing is counted twice.
type collector struct {
	status func(ctx context.Context) (nodestatus.Status, error)
	descs  map[string]*prometheus.Desc
}

// scrapeTimeout bounds how long a scrape waits for the status.
const scrapeTimeout = 5 * time.Second

func newCollector(status func(ctx context.Context) (nodestatus.Status, error)) *collector {
	c := &collector{status: status, descs: map[string]*prometheus.Desc{}}
	for _, m := range Metrics() {
		c.descs[m.Name] = prometheus.NewDesc(m.Name, m.Help, m.Labels, nil)
	}
	return c
}

// Metric is one metric that /metrics shows, beside those of Go and the process.
type Metric struct {
	Name   string
	Help   string
	Labels []string
}

// Metrics is the table of them.
func Metrics() []Metric {
	return []Metric{
		{"croft_build_info", "1; the labels say what runs", []string{"version", "commit"}},
		{"croft_ready", "1 while new reservations are taken", nil},
		{"croft_check", "0 ok, 1 warning, 2 failing", []string{"check"}},
		{"croft_workloads", "deployed workloads that haven't expired", []string{"type"}},
		{"croft_records", "records of the store", []string{"phase"}},
		{"croft_attempts", "attempts since the last success, summed over workloads that aren't deployed", nil},
		{"croft_undelivered_results", "results that the explorer doesn't have yet", nil},
		{"croft_orphans", "things with croft's label and no record", nil},
		{"croft_drift_total", "workloads that were gone or changed under the node, since its start", []string{"type"}},
		{"croft_quarantined_files", "files of the store that could not be read", nil},
		{"croft_clock_trusted", "1 while dates are judged by the clock", nil},
		{"croft_clock_level", "what the clock is good for: 0 nothing, 1 judging dates and stopping workloads, 2 removing data too", nil},
		{"croft_explorer_last_contact_seconds", "time of the last good answer, in seconds since 1970; 0 for never", nil},
		{"croft_containers", "users' containers on the node", []string{"state"}},
		{"croft_container_restarts", "starts after the first, summed over the users' containers that there are", nil},
		{"croft_own_containers", "containers that the node runs for itself", []string{"state"}},
		{"croft_own_container_restarts", "starts after the first, summed over those that there are", nil},
		{"croft_images", "images on the node", nil},
		{"croft_image_bytes", "what images take", nil},
		{"croft_zdb_namespaces", "0-db namespaces of reservations", []string{"container"}},
		{"croft_zdb_drifted", "1 while a zdb container isn't as it should be", []string{"container"}},
		{"croft_door_restarts_total", "starts of the door's process after one that ended too early, since the node's start", nil},
		{"croft_log_carrier_bytes", "memory of the log carrier", nil},
		{"croft_pool_bytes", "what is of a pool: total, used, reserved", []string{"pool", "type", "what"}},
	}
}

// Describe sends nothing: what there is depends on the node.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
}

// Collect makes the metrics of one scrape.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	s, err := c.status(ctx)
	if err != nil {
		ch <- prometheus.NewInvalidMetric(c.descs["croft_ready"], err)
		return
	}
	gauge := func(name string, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(c.descs[name], prometheus.GaugeValue, value, labels...)
	}
	readiness := Judge(s, time.Now())
	gauge("croft_build_info", 1, s.Version, s.Commit)
	gauge("croft_ready", truth(readiness.Ready))
	for _, check := range readiness.Checks {
		gauge("croft_check", map[nodestatus.Level]float64{nodestatus.Good: 0, nodestatus.Warning: 1, nodestatus.Failing: 2}[check.Level], check.Name)
	}
	gauge("croft_undelivered_results", float64(s.Undelivered))
	gauge("croft_orphans", float64(len(s.Orphans)))
	for _, t := range workload.Types() {
		ch <- prometheus.MustNewConstMetric(c.descs["croft_drift_total"], prometheus.CounterValue, float64(s.Drifts[t]), string(t))
	}
	ch <- prometheus.MustNewConstMetric(c.descs["croft_door_restarts_total"], prometheus.CounterValue, float64(s.DoorRestarts))
	gauge("croft_quarantined_files", float64(len(s.Store.Quarantined)))
	gauge("croft_clock_trusted", truth(s.Clock.Trusted))
	gauge("croft_clock_level", map[string]float64{"stop": 1, "remove": 2}[s.Clock.Level])
	contact := 0.0
	if s.Explorer.LastContact != nil {
		contact = float64(s.Explorer.LastContact.UnixNano()) / 1e9
	}
	gauge("croft_explorer_last_contact_seconds", contact)
	collectWorkloads(s, gauge)
	collectContainers(s, gauge)
	for _, p := range s.Storage.Pools {
		for what, value := range map[string]uint64{"total": p.Total, "used": p.Used, "reserved": p.Reserved} {
			gauge("croft_pool_bytes", float64(value), p.Name, string(p.DiskType), what)
		}
	}
}

func collectWorkloads(s nodestatus.Status, gauge func(name string, value float64, labels ...string)) {
	counts := s.Counters
	for kind, n := range map[string]int64{
		"container": counts.Container, "volume": counts.Volume, "network": counts.Network,
		"zdb": counts.ZDB, "kubernetes": counts.VM, "debug": counts.Debug,
	} {
		gauge("croft_workloads", float64(n), kind)
	}
	phases := map[string]int{}
	for _, p := range lifecycle.Phases() {
		phases[string(p)] = 0
	}
	attempts := 0
	for _, w := range s.Workloads {
		phases[w.Phase]++
		if w.Phase != string(lifecycle.Deployed) {
			attempts += w.Attempts
		}
	}
	for phase, n := range phases {
		gauge("croft_records", float64(n), phase)
	}
	gauge("croft_attempts", float64(attempts))
}

func collectContainers(s nodestatus.Status, gauge func(name string, value float64, labels ...string)) {
	count := func(kind string, containers []node.ContainerInfo) {
		states := map[string]int{node.ContainerCreated: 0, node.ContainerRunning: 0, node.ContainerWaiting: 0, node.ContainerBroken: 0}
		restarts := uint64(0)
		for _, c := range containers {
			states[c.State]++
			restarts += c.Restarts
		}
		for state, n := range states {
			gauge(kind+"s", float64(n), state)
		}
		gauge(kind+"_restarts", float64(restarts))
	}
	count("croft_container", s.Containers)
	count("croft_own_container", s.OwnContainers)
	gauge("croft_images", float64(s.Image.Images))
	gauge("croft_image_bytes", float64(s.Image.Size))
	gauge("croft_log_carrier_bytes", float64(s.Container.LogCarrierMemory))
	for _, z := range s.ZDB {
		gauge("croft_zdb_namespaces", float64(z.Namespaces), z.Container)
		gauge("croft_zdb_drifted", truth(z.Drift != ""), z.Container)
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
