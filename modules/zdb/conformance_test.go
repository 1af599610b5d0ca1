package zdb_test

import (
	"testing"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/conformance"
	"github.com/croft-edge/croft/pkg/workload"
)

func TestTheContract(t *testing.T) {
	conformance.ZDBSuite(t, func(t *testing.T) conformance.ZDBSubject {
		w := newWorld(t)
		return conformance.ZDBSubject{
			Client: w.stub,
			Start: func(t *testing.T, container string, mode workload.ZDBMode) node.ZDBServerSpec {
				t.Helper()
				return w.start(container, mode)
			},
			Kill: func(t *testing.T, container string) {
				t.Helper()
				w.kill(container)
			},
			Restart: func(t *testing.T) conformance.ZDBNamespacesClient {
				t.Helper()
				w.restart()
				return w.stub
			},
		}
	})
}
