package storage

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/conformance"
	storageconformance "github.com/croft-edge/croft/pkg/node/conformance/storage"
	"github.com/croft-edge/croft/pkg/node/stubs"
	"github.com/croft-edge/croft/pkg/workload"
)

// onBus is m through its stub.
func onBus(t *testing.T, m *Module) *stubs.StorageStub {
	t.Helper()
	return stubs.NewStorageStub(conformance.OnBus(t, node.StorageModule, bus.Object(node.StorageObject, node.StorageVersion), m.Storage()))
}

// disksOnBus is m's virtual disks through their stub.
func disksOnBus(t *testing.T, m *Module) *stubs.VDisksStub {
	t.Helper()
	return stubs.NewVDisksStub(conformance.OnBus(t, node.StorageModule, bus.Object(node.VDiskObject, node.VDiskVersion), m.VDisks()))
}

func TestStorageConforms(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
	for _, quota := range quotaKinds(t) {
		t.Run(string(quota), func(t *testing.T) {
			storageconformance.Suite(t, func(t *testing.T) storageconformance.Subject {
				cfg := newConfig(t)
				cfg.Quota = quota
				m := opened(t, cfg)
				return storageconformance.Subject{
					Client: onBus(t, m), Offers: workload.SSD, Lacks: workload.HDD,
					Restart: func(t *testing.T) storageconformance.Client { return onBus(t, reopen(t, m)) },
				}
			})
		})
	}
}

func TestVDisksConform(t *testing.T) {
	for _, quota := range quotaKinds(t) {
		t.Run(string(quota), func(t *testing.T) {
			storageconformance.VDisksSuite(t, func(t *testing.T) storageconformance.VDisksSubject {
				cfg := newConfig(t)
				cfg.Quota = quota
				m := opened(t, cfg)
				s := storageconformance.VDisksSubject{Client: disksOnBus(t, m), Offers: workload.SSD, Lacks: workload.HDD}
				pools := &latest{Client: onBus(t, m)}
				s.Pools = pools
				s.Restart = func(t *testing.T) storageconformance.VDisksClient {
					m := reopen(t, m)
					pools.Client = onBus(t, m)
					return disksOnBus(t, m)
				}
				return s
			})
		})
	}
}

// latest is the client of the module that was opened last.
type latest struct{ storageconformance.Client }
