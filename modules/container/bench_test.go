package container

import (
	"fmt"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/node"
)

// BenchmarkContainers measures how long a container takes to be created, started, listed among
// others, and deleted.
func BenchmarkContainers(b *testing.B) {
	w := newWorld(b)
	took := map[string]time.Duration{}
	measure := func(what string, do func() error) {
		start := time.Now()
		must(b, do())
		took[what] += time.Since(start)
	}
	n := 0
	for b.Loop() {
		id := fmt.Sprintf("%d-1", n)
		n++
		s := w.spec(id, "serve")
		measure("create", func() error { _, err := w.Create(s); return err })
		measure("start", func() error { _, err := w.Start(id); return err })
		measure("list", func() error {
			all, err := w.List()
			if err == nil && len(all) != n {
				err = node.Errorf(node.Internal, "listed %d of %d", len(all), n)
			}
			return err
		})
	}
	for i := range n {
		measure("delete", func() error { return w.Delete(fmt.Sprintf("%d-1", i)) })
	}
	for what, d := range took {
		b.ReportMetric(float64(d.Microseconds())/float64(n)/1000, what+"-ms")
	}
}
