// Package seen shows in /metrics how often limits were reached.
package seen

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/croft-edge/croft/pkg/limit"
)

// Collector shows limit.Times as a counter of the given name, with the label
// "limit".
func Collector(name string) prometheus.Collector {
	return collector{prometheus.NewDesc(name,
		"How often a limit has turned something away, by its name in docs/security.md.", []string{"limit"}, nil)}
}

type collector struct{ desc *prometheus.Desc }

func (c collector) Describe(to chan<- *prometheus.Desc) { to <- c.desc }

func (c collector) Collect(to chan<- prometheus.Metric) {
	for name, n := range limit.Times() {
		to <- prometheus.MustNewConstMetric(c.desc, prometheus.CounterValue, float64(n), name)
	}
}
