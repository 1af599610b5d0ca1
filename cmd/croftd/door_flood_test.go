package main_test

import (
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/nodeapi"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
)

// TestAFloodOfStrangersAtAWholeNode: a real node and explorer, 512 silent connections from 8 addresses
// at the node's door, and 96 of three fresh keys in its tunnel. The owner of a workload connects both
// ways, is counted as an owner, and stays for longer than strangers may.
func TestAFloodOfStrangersAtAWholeNode(t *testing.T) {
	w, n := whole(t)
	r := w.Reserve(n, time.Hour)
	w.Result(r, workload.StateOK)
	mine := ways(t, w, n, w.User)
	for _, d := range mine {
		reached(t, w, d)
	}
	for i := range 512 {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(fmt.Sprintf("127.0.0.%d", 2+i%8))}}
		c, err := d.DialContext(t.Context(), "tcp", n.Door())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	held := 0
	for range 3 {
		key, err := sign.Generate()
		if err != nil {
			t.Fatal(err)
		}
		client, err := explorer.NewClient(explorer.Config{
			URL: w.URL, Signer: explorer.KeySigner(explorer.RoleUser, key), Transport: &http.Transport{DialContext: w.DialFrom(w.Namespace)},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		for range 32 {
			if c, err := client.ConnectNode(t.Context(), n.ID); err == nil {
				t.Cleanup(func() { _ = c.Close() })
				held++
			}
		}
	}
	if held == 0 {
		t.Fatal("no fresh key was let through: the attack doesn't take place")
	}
	open := map[string]*nodeapi.Conn{}
	for way, d := range mine {
		c, err := d.Dial(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", way, err)
		}
		defer c.Close()
		open[way] = c
	}
	stranger, err := sign.Generate()
	if err != nil {
		t.Fatal(err)
	}
	d := mine["at its address"]
	d.User = stranger
	theirs := reached(t, w, d)
	var last error
	for range 13 { // seconds: strangers have ten
		for way, c := range open {
			if _, err := c.Status(t.Context(), r.ID); err != nil {
				t.Fatalf("%s: %v", way, err)
			}
		}
		_, last = theirs.Status(t.Context(), r.ID)
		<-time.After(time.Second)
	}
	if node.KindOf(last) != node.Transient {
		t.Errorf("a stranger is still there: %v", last)
	}
	n.Stop()
}
