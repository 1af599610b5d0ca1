package zdb

import (
	"sync"
	"testing"
)

// However many stores have background work at once, few of their jobs run, because each holds files open;
// the others wait and run later.
func TestBackgroundJobsAreBounded(t *testing.T) {
	n := &namespaces{jobs: make(chan struct{}, jobsAtOnce)}
	const all = 10 * jobsAtOnce
	var ran sync.WaitGroup
	ran.Add(all)
	started, end := make(chan struct{}, all), make(chan struct{})
	for range all {
		n.background(func() {
			defer ran.Done()
			started <- struct{}{}
			<-end
		})
	}
	for range jobsAtOnce {
		<-started
	}
	if len(n.jobs) != jobsAtOnce || len(started) != 0 {
		t.Errorf("%d jobs have places, %d more have started", len(n.jobs), len(started))
	}
	close(end)
	ran.Wait()
}
