package zdb

import (
	"testing"
	"testing/synctest"
)

// However many stores have background work at once, few of their jobs run, because each holds files open;
// the others wait and run later.
func TestBackgroundJobsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const atOnce, all = 16, 160
		n := &namespaces{jobs: make(chan struct{}, atOnce)}
		started, end := make(chan struct{}, all), make(chan struct{})
		for range all {
			n.background(func() {
				started <- struct{}{}
				<-end
			})
		}
		synctest.Wait()
		if got := len(started); got != atOnce {
			t.Errorf("%d jobs run at once, want %d", got, atOnce)
		}
		close(end)
		synctest.Wait()
		if got := len(started); got != all {
			t.Errorf("%d jobs ran, want %d", got, all)
		}
	})
}
