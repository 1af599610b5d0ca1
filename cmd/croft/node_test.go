package main

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	client "github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
)

// fakeNode polls like a node and answers with signed results; it provisions
// nothing.
type fakeNode struct {
	key   sign.KeyPair
	world *world
	// farm is the one that it asks to join.
	farm uint64

	mu sync.Mutex
	// failure is the error that it answers new reservations with; empty for ok.
	failure  string
	sequence int64
	// answers are the newest results by reservation ID.
	answers map[string]*workload.Result
	halt    func()
	door    *fakeDoor
	// steady is whether containers run; else they end and are started again.
	steady atomic.Bool
	// why is its door's reason for undone reservations: a string.
	why atomic.Value
	// console is the text on its VMs' consoles: a string.
	console atomic.Value
}

// register registers the node as it was ago.
func (n *fakeNode) register(ctx context.Context, ago time.Duration) error {
	n.world.offset.Store(-int64(ago))
	defer n.world.offset.Store(0)
	c, err := n.world.client(n.key)
	if err != nil {
		return err
	}
	defer c.Close()
	total := client.Resources{CRU: 4, MRU: 8, SRU: 100, HRU: 200}
	if err := c.RegisterNode(ctx, client.Node{NodeID: n.key.ID(), FarmID: n.farm, OSVersion: "croft test", TotalResources: total}); err != nil {
		return err
	}
	if err := c.SetCapacity(ctx, n.key.ID(), total); err != nil {
		return err
	}
	free := client.Resources{CRU: 3, MRU: 7, SRU: 90, HRU: 200}
	return c.Heartbeat(ctx, n.key.ID(), client.Heartbeat{Uptime: 60, FreeResources: &free, Birth: "birth-1"})
}

// on makes it poll until off.
func (n *fakeNode) on() error {
	c, err := n.world.client(n.key)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	n.mu.Lock()
	n.halt = func() {
		cancel()
		<-done
		c.Close()
	}
	n.mu.Unlock()
	go func() {
		defer close(done)
		n.poll(ctx, c)
	}()
	return nil
}

func (n *fakeNode) off() {
	n.mu.Lock()
	halt := n.halt
	n.halt = nil
	n.mu.Unlock()
	if halt != nil {
		halt()
	}
}

func (n *fakeNode) fail(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.failure = text
}

func (n *fakeNode) poll(ctx context.Context, c *client.Client) {
	var cursor client.Cursor
	for ctx.Err() == nil {
		page, err := c.PollPage(ctx, n.key.ID(), cursor, time.Second)
		if err != nil {
			// The explorer is away, or is being stopped: try again a little later.
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
			continue
		}
		for _, raw := range page.Reservations {
			if r, err := workload.Decode(raw); err == nil {
				n.handle(ctx, c, r)
			}
		}
		cursor = client.Cursor{Epoch: page.Epoch, Change: page.Next}
	}
}

// handle answers a reservation once, and its deletion once.
func (n *fakeNode) handle(ctx context.Context, c *client.Client, r *workload.Reservation) {
	if workload.Verify(r) != nil {
		return
	}
	n.mu.Lock()
	old := n.answers[r.ID]
	state, text := workload.StateOK, n.failure
	switch {
	case r.Deletion != nil && workload.VerifyDeletion(r) == nil:
		state, text = workload.StateDeleted, ""
	case text != "":
		state = workload.StateError
	}
	if old != nil && (old.State == state || state != workload.StateDeleted) {
		n.mu.Unlock()
		return
	}
	n.sequence++
	result, err := n.result(r, state, text, n.sequence)
	if err == nil {
		n.answers[r.ID] = result
	}
	n.mu.Unlock()
	for err == nil && ctx.Err() == nil && c.PutResult(ctx, result) != nil {
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (n *fakeNode) result(r *workload.Reservation, state workload.State, text string, sequence int64) (*workload.Result, error) {
	hash, err := r.Hash()
	if err != nil {
		return nil, err
	}
	out := &workload.Result{
		Type: r.Type, ID: r.ID, Created: time.Now(), State: state, Error: text, Data: json.RawMessage("null"),
		Hash: hash[:], Birth: "birth-1", Sequence: sequence, NodeID: n.key.ID(),
	}
	switch {
	case state != workload.StateOK:
	case r.Type == workload.TypeVolume:
		out.Data = json.RawMessage(`{"volume_id":"` + r.ID + `"}`)
	case r.Type == workload.TypeKubernetes:
		k, err := workload.DataOf[workload.Kubernetes](r)
		if err != nil {
			return nil, err
		}
		out.Data = json.RawMessage(`{"id":"` + r.ID + `","ip":"` + k.IP.String() + `"}`)
	case r.Type == workload.TypeZDB:
		out.Data = json.RawMessage(`{"Namespace":"` + r.ID + `","IP":"192.0.2.7","Port":9900,"Container":"zdb-ssd0-user"}`)
	}
	message, err := out.SigningBytes()
	if err != nil {
		return nil, err
	}
	out.Signature = n.key.Sign(message)
	return out, nil
}

// evict ends a reservation as the machine's owner.
func (n *fakeNode) evict(ctx context.Context, id, why string) error {
	c, err := n.world.client(n.key)
	if err != nil {
		return err
	}
	defer c.Close()
	shown, err := c.Get(ctx, id)
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.answers[id] == nil {
		return errors.New("the node hasn't that reservation")
	}
	n.sequence++
	result, err := n.result(&shown.Reservation, workload.StateEvicted, why, n.sequence)
	if err != nil {
		return err
	}
	n.answers[id] = result
	return c.PutResult(ctx, result)
}
