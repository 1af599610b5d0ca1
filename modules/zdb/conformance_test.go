package zdb_test

import (
	"testing"

	"github.com/croft-edge/croft/pkg/node"
	zdbconformance "github.com/croft-edge/croft/pkg/node/conformance/zdb"
	"github.com/croft-edge/croft/pkg/workload"
)

func TestTheContract(t *testing.T) {
	zdbconformance.Suite(t, func(t *testing.T) zdbconformance.Subject {
		w := newWorld(t)
		return zdbconformance.Subject{
			Client: w.stub,
			Start: func(t *testing.T, container string, mode workload.ZDBMode) node.ZDBServerSpec {
				t.Helper()
				return w.start(container, mode)
			},
			Kill: func(t *testing.T, container string) {
				t.Helper()
				w.kill(container)
			},
			Restart: func(t *testing.T) zdbconformance.Client {
				t.Helper()
				w.restart()
				return w.stub
			},
		}
	})
}
