package main

import (
	"context"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/explorer"
	"github.com/croft-edge/croft/explorer/api"
	client "github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
)

// world is a real explorer, a proxy in front of it that can lie, and a node
// that answers without doing anything.
type world struct {
	db    string
	proxy *proxy
	front *httptest.Server
	// offset is how far the explorer's and the node's clocks are off.
	offset atomic.Int64

	mu   sync.Mutex
	stop func()
	node *fakeNode
	// known is the state of the node on this machine, when a script opens it.
	known knowledge
}

func newWorld(dir string) (*world, error) {
	w := &world{db: filepath.Join(dir, "explorer.db"), proxy: &proxy{}}
	w.front = httptest.NewServer(w.proxy)
	key, err := sign.Generate()
	if err != nil {
		return nil, err
	}
	w.node = &fakeNode{key: key, world: w, answers: map[string]*workload.Result{}}
	return w, w.startExplorer()
}

func (w *world) now() time.Time { return time.Now().Add(time.Duration(w.offset.Load())) }

// startExplorer starts the real explorer on the world's database.
func (w *world) startExplorer() error {
	policy := api.DefaultPolicy()
	policy.AcceptSignatureV1 = true
	service, err := explorer.Open(context.Background(), explorer.Config{
		Listen: "127.0.0.1:0", DB: w.db, Policy: policy, Validate: workload.Validate, Version: "test", Log: zerolog.Nop(), Now: w.now,
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- service.Run(ctx) }()
	w.stop = func() {
		cancel()
		<-done
	}
	w.proxy.pointAt(service.URL())
	return nil
}

// client speaks to the explorer behind the proxy's back as the node.
func (w *world) client(key sign.KeyPair) (*client.Client, error) {
	return client.NewClient(client.Config{URL: w.proxy.target(), Signer: client.KeySigner(client.RoleNode, key), Now: w.now})
}

// neighbour registers a node that has these addresses, and ports as in "port:3001".
func (w *world) neighbour(ctx context.Context, has []string) (string, error) {
	key, err := sign.Generate()
	if err != nil {
		return "", err
	}
	c, err := w.client(key)
	if err != nil {
		return "", err
	}
	defer c.Close()
	n := client.Node{NodeID: key.ID(), OSVersion: "croft test", Ifaces: []client.Iface{{Name: "host", Addrs: []string{}, Gateway: []string{}}}}
	for _, one := range has {
		if port, ok := strings.CutPrefix(one, "port:"); ok {
			number, err := strconv.ParseUint(port, 10, 16)
			if err != nil {
				return "", err
			}
			n.WGPorts = append(n.WGPorts, uint(number))
			continue
		}
		n.Ifaces[0].Addrs = append(n.Ifaces[0].Addrs, one)
	}
	return key.ID(), c.RegisterNode(ctx, n)
}

func (w *world) close() {
	w.node.off()
	w.node.shut()
	w.front.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stop != nil {
		w.stop()
		w.stop = nil
	}
}

// stopExplorer stops it; its database stays.
func (w *world) stopExplorer() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stop != nil {
		w.stop()
		w.stop = nil
	}
}
