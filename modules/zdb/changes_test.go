package zdb_test

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/testing/changestest"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// The end of a zdb, and of its listener, is told by the namespaces in it.
func TestTheEndOfAZDBIsTold(t *testing.T) {
	const two = "zdb-hdd0-user"
	w := newWorld(t)
	w.attach(one, workload.ZDBUser)
	w.attach(two, workload.ZDBUser)
	for container, names := range map[string][]string{one: {"1-1", "2-1", "croft-own"}, two: {"3-1"}} {
		for _, name := range names {
			_, err := w.stub.Create(t.Context(), node.ZDBNamespaceSpec{Container: container, Name: name, Size: 1 << 20})
			must(t, err)
		}
	}
	must(t, w.stub.Delete(t.Context(), one, "2-1"))
	e := changestest.Listen(t, w.module.Changes())
	raw, err := w.listeners(one)[0].SyscallConn()
	must(t, err)
	must(t, raw.Control(func(fd uintptr) { must(t, unix.Shutdown(int(fd), unix.SHUT_RDWR)) }))
	w.kill(one)
	e.HearsOnly("a killed zdb", "1-1")

	// A module that has just started knows the namespaces from its first look.
	w.restart()
	w.server(two)
	e = changestest.Listen(t, w.module.Changes())
	w.kill(two)
	e.HearsOnly("a killed zdb of before", "3-1")
}
