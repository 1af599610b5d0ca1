package fakenode_test

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/croft-edge/croft/internal/testing/fakenode"
	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/conformance"
	storageconformance "github.com/croft-edge/croft/pkg/node/conformance/storage"
	zdbconformance "github.com/croft-edge/croft/pkg/node/conformance/zdb"
	"github.com/croft-edge/croft/pkg/node/stubs"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
)

// poolSize is the size in bytes that a suite wants of a pool.
const poolSize = 1 << 30

func TestStorageConforms(t *testing.T) {
	storageconformance.Suite(t, func(t *testing.T) storageconformance.Subject {
		s := fakenode.NewStorage(&fakenode.Calls{}, node.Pool{Name: "ssd0", DiskType: workload.SSD, Offered: poolSize})
		open := func(t *testing.T) storageconformance.Client {
			t.Helper()
			return s.Serve(t)
		}
		return storageconformance.Subject{Client: open(t), Offers: workload.SSD, Lacks: workload.HDD, Disk: fakenode.Files{Storage: s}, Restart: open}
	})
}

func TestVDisksConform(t *testing.T) {
	storageconformance.VDisksSuite(t, func(t *testing.T) storageconformance.VDisksSubject {
		s := fakenode.NewStorage(&fakenode.Calls{}, node.Pool{Name: "ssd0", DiskType: workload.SSD, Offered: poolSize})
		open := func(t *testing.T) storageconformance.VDisksClient {
			t.Helper()
			return fakenode.VDisks{Storage: s}.Serve(t)
		}
		return storageconformance.VDisksSubject{
			Client: open(t), Pools: s.Serve(t), Offers: workload.SSD, Lacks: workload.HDD, Image: fakenode.DiskImages{Storage: s}, Restart: open,
		}
	})
}

func TestDebugConforms(t *testing.T) {
	conformance.DebugSuite(t, func(t *testing.T) conformance.DebugSubject {
		d := fakenode.NewDebug(&fakenode.Calls{})
		open := func(t *testing.T) conformance.DebugClient {
			t.Helper()
			return d.Serve(t)
		}
		return conformance.DebugSubject{
			Client: open(t), Host: "192.0.2.1", Port: 6379, Most: fakenode.MaxStreams,
			Restart: func(t *testing.T) conformance.DebugClient {
				t.Helper()
				d.Restart()
				return open(t)
			},
		}
	})
}

func TestNetworksConform(t *testing.T) {
	conformance.NetworksSuite(t, func(t *testing.T) conformance.NetworksSubject {
		n := fakenode.NewNetworks(&fakenode.Calls{})
		open := func(t *testing.T) (conformance.NetworksClient, conformance.TapsClient) {
			t.Helper()
			return n.Serve(t), fakenode.Taps{Networks: n}.Serve(t)
		}
		port := uint16(3000)
		s := conformance.NetworksSubject{
			Process: func(*testing.T) uint64 { return n.Process() },
			Pin:     func(_ *testing.T, source string) string { return n.Pin(source) },
			Unpin:   func(_ *testing.T, path string) { n.Unpin(path) },
			Break: func(_ *testing.T, tap node.Tap) {
				fakenode.Taps{Networks: n}.SetDrift(tap.VM, "link "+tap.Device+" is gone")
			},
			Port:    func(*testing.T) uint16 { port++; return port },
			Restart: open,
		}
		s.Client, s.Taps = open(t)
		return s
	})
}

func TestZDBConforms(t *testing.T) {
	zdbconformance.Suite(t, func(t *testing.T) zdbconformance.Subject {
		z := fakenode.NewZDB(&fakenode.Calls{}, 9900, 9902)
		open := func(t *testing.T) zdbconformance.Client {
			t.Helper()
			return z.Serve(t)
		}
		return zdbconformance.Subject{
			Client: open(t),
			Start: func(_ *testing.T, container string, mode workload.ZDBMode) node.ZDBServerSpec {
				return z.Start(container, mode, "/pools/ssd0/"+container)
			},
			Kill:    func(_ *testing.T, container string) { z.Kill(container) },
			Restart: open,
			Dial:    func(_ context.Context, ip string, port uint16) (zdbconformance.Conn, error) { return z.Dial(ip, port) },
		}
	})
}

func TestImagesConform(t *testing.T) {
	conformance.ImagesSuite(t, func(t *testing.T) conformance.ImagesSubject {
		i := fakenode.NewImages(&fakenode.Calls{})
		first, second := "sha256:"+strings.Repeat("1", 64), "sha256:"+strings.Repeat("2", 64)
		const tag, wrong, path = "docker://hub.example/app:1", "docker://hub.example/bad:1", fakenode.ImagePaths + "image.tar"
		i.Offer(tag, fakenode.Content{Digest: first})
		i.Offer("docker://hub.example/app@"+first, fakenode.Content{Digest: first})
		i.Offer(path, fakenode.Content{Digest: second})
		i.Offer(wrong, fakenode.Content{Digest: first, Wrong: true})
		open := func(t *testing.T) conformance.ImagesClient {
			t.Helper()
			return i.Serve(t)
		}
		return conformance.ImagesSubject{
			Client: open(t), Tag: tag, Digest: "docker://hub.example/app@" + first, Path: path, Missing: "docker://hub.example/none:1", Wrong: wrong,
			Move:    func(*testing.T) { i.Offer(tag, fakenode.Content{Digest: second}) },
			Unplug:  func(*testing.T) { i.Unplug() },
			Restart: open,
		}
	})
}

func TestContainersConform(t *testing.T) {
	conformance.ContainersSuite(t, func(t *testing.T) conformance.ContainersSubject {
		calls := &fakenode.Calls{}
		i := fakenode.NewImages(calls)
		c := fakenode.NewContainers(calls, i)
		const reference = fakenode.ImagePaths + "server"
		i.Offer(reference, fakenode.Content{Digest: "sha256:" + strings.Repeat("1", 64), Programs: map[string]fakenode.Program{
			"/serve": {Says: "hello"}, "/fail": {Says: "bye", Exits: true, Code: 1},
		}})
		folders := atomic.Int64{}
		folder := func(t *testing.T) string {
			t.Helper()
			return "/pools/ssd0/" + strconv.FormatInt(folders.Add(1), 10)
		}
		open := func(t *testing.T) (conformance.ContainersClient, conformance.ImagesClient) {
			t.Helper()
			return c.Serve(t), i.Serve(t)
		}
		s := conformance.ContainersSubject{
			Reference: reference, Serve: []string{"/serve"}, Fail: []string{"/fail"}, Layer: folder, Volume: folder, Restart: open,
		}
		s.Client, s.Images = open(t)
		return s
	})
}

func TestVMsConform(t *testing.T) {
	conformance.VMsSuite(t, func(t *testing.T) conformance.VMsSubject {
		v := fakenode.NewVMs(&fakenode.Calls{})
		open := func(t *testing.T) conformance.VMsClient {
			t.Helper()
			return v.Serve(t)
		}
		return conformance.VMsSubject{
			Client: open(t), Restart: open,
			Spec: func(_ *testing.T, id string) node.VMSpec {
				return node.VMSpec{
					ID: id, User: "user", CPU: 1, Memory: 128 << 20, Kernel: "/boot/vmlinuz", Initrd: "/boot/initrd",
					Disks: []node.VMDisk{{Path: "/pools/ssd0/vdisks/" + id, Serial: "data"}}, Config: []byte("config"),
				}
			},
			Crash: func(_ *testing.T, vm node.VMInfo) { v.Crash(vm.ID) },
		}
	})
}

func TestVMImagesConform(t *testing.T) {
	conformance.VMImagesSuite(t, func(t *testing.T) conformance.VMImagesSubject {
		v := fakenode.NewVMImages(&fakenode.Calls{}, fakenode.VMImageReference)
		open := func(t *testing.T) conformance.VMImagesClient {
			t.Helper()
			return v.Serve(t)
		}
		return conformance.VMImagesSubject{
			Client: open(t), None: fakenode.NewVMImages(&fakenode.Calls{}, "").Serve(t), Fetched: true, Restart: open,
			Offer:  func(_ *testing.T, version string) { v.Offer(version) },
			Unplug: func(*testing.T) {},
		}
	})
}

func TestIdentityConforms(t *testing.T) {
	conformance.IdentitySuite(t, func(t *testing.T) conformance.IdentitySubject {
		key, err := sign.Generate()
		if err != nil {
			t.Fatal(err)
		}
		i := fakenode.NewIdentity(&fakenode.Calls{}, key)
		version := conformance.OnBus[node.VersionMonitor](t, node.IdentityModule, bus.Object(node.VersionObject, node.VersionObjectVersion), i)
		return conformance.IdentitySubject{
			Client: i.Serve(t), Version: stubs.NewVersionMonitorStub(version), Running: i.Running(),
			Restart: func(t *testing.T) conformance.IdentityClient { return i.Serve(t) },
		}
	})
}
