package zdb_test

import (
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// TestTheNodeHasPlacesOfItsOwn: 4,200 connections that say nothing and come back
// leave the node what it needs to say how its zdb is, and to make namespaces.
func TestTheNodeHasPlacesOfItsOwn(t *testing.T) {
	w := newWorld(t)
	at := w.attach(one, workload.ZDBUser)
	before := limit.Times()["zdb-connections"]
	stop := make(chan struct{})
	var all, full sync.WaitGroup
	const crowd, hands = 4200, 6
	full.Add(hands)
	for hand := range hands {
		all.Go(func() {
			conns := make([]net.Conn, crowd/hands)
			filled := sync.OnceFunc(full.Done)
			defer filled()
			for i := 0; ; i++ {
				k := i % len(conns)
				select {
				case <-stop:
					for _, c := range conns {
						if c != nil {
							c.Close()
						}
					}
					return
				default:
				}
				if c := conns[k]; c != nil {
					filled()
					_ = c.SetReadDeadline(time.Now().Add(50 * time.Microsecond))
					if _, err := c.Read(make([]byte, 64)); isTimeout(err) {
						continue
					}
					c.Close()
				}
				from := hand*len(conns) + k
				d := net.Dialer{Timeout: patience, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 1, byte(from/250), byte(from%250+1))}}
				conns[k], _ = d.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", at.Port))
			}
		})
	}
	full.Wait()
	for i := range 10 {
		if got := w.server(one); got.Drift != "" {
			t.Errorf("try %d: the drift is %s", i, got.Drift)
		}
		if _, err := w.stub.Create(t.Context(), node.ZDBNamespaceSpec{Container: one, Name: fmt.Sprint("5-", i), Size: 1, Password: "hush"}); err != nil {
			t.Errorf("try %d: %v", i, err)
		}
		if err := ping(at.Port); err != nil {
			t.Errorf("try %d: somebody who comes: %v", i, err)
		}
	}
	close(stop)
	all.Wait()
	w.server(one)
	if after := limit.Times()["zdb-connections"]; after <= before {
		t.Errorf("the node counts %d of zdb-connections, before it was %d", after, before)
	}
}

func isTimeout(err error) bool {
	timeout, ok := err.(net.Error) //nolint:errorlint // it is net's own
	return ok && timeout.Timeout()
}
