package container

import (
	"fmt"
	"sync"
	"testing"

	"github.com/croft-edge/croft/pkg/node"
)

func TestConcurrentContainers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const many = 6
	specs := make([]node.ContainerSpec, many)
	for i := range specs {
		specs[i] = w.spec(fmt.Sprintf("%d-1", i), "serve")
	}
	var work sync.WaitGroup
	pids := make([][2]uint64, many)
	for i, s := range specs {
		for twice := range 2 {
			work.Go(func() {
				if _, err := w.Create(s); err != nil {
					t.Error(err)
				}
				info, err := w.Start(s.ID)
				if err != nil {
					t.Error(err)
				}
				pids[i][twice] = info.PID
			})
		}
	}
	work.Wait()
	all, err := w.List()
	if err != nil || len(all) != many {
		t.Fatalf("%d of %d containers (%v)", len(all), many, err)
	}
	for i, info := range all {
		if info.State != node.ContainerRunning || info.PID != pids[i][0] || info.PID != pids[i][1] {
			t.Errorf("%s has process %d, it was started as %v: %+v", info.ID, info.PID, pids[i], info)
		}
	}
	ids := make([]string, many)
	for i, s := range specs {
		ids[i] = s.ID
		work.Go(func() {
			if err := w.Delete(s.ID); err != nil {
				t.Error(err)
			}
		})
	}
	work.Wait()
	w.nothingLeft(ids...)
}
