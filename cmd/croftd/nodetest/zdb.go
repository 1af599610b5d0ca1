package nodetest

import (
	"context"
	"encoding/json"
	"net"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
)

// ZDB is a reservation for a 0-db namespace of the world's user: 1 GiB of SSD in
// user mode without a password, but for what change changes.
func (w *World) ZDB(n *Node, change func(*workload.ZDB)) *workload.Reservation {
	w.Helper()
	return w.ZDBOf(w.User, n, change)
}

// ZDBOf is ZDB of any user. A plain password is sealed to the node.
func (w *World) ZDBOf(user sign.KeyPair, n *Node, change func(*workload.ZDB)) *workload.Reservation {
	w.Helper()
	data := workload.ZDB{Size: 1, Mode: workload.ZDBUser, DiskType: workload.SSD}
	if change != nil {
		change(&data)
	}
	if data.PlainPassword != "" {
		data.Password = w.SealPassword(n, user, data.PlainPassword)
	}
	raw, err := json.Marshal(data)
	if err != nil {
		w.Fatal(err)
	}
	r := &workload.Reservation{NodeID: n.ID, Type: workload.TypeZDB, Created: time.Now(), Duration: time.Hour, Data: raw}
	if err := r.Sign(user.Private()); err != nil {
		w.Fatal(err)
	}
	return r
}

// SealPassword seals the password of a user's namespace to the node.
func (w *World) SealPassword(n *Node, user sign.KeyPair, password string) string {
	w.Helper()
	sealed, err := workload.SealSecret(n.ID, user.ID(), workload.TypeZDB, "password", []byte(password))
	if err != nil {
		w.Fatal(err)
	}
	return sealed
}

// ZDBResult waits for the result of a namespace that is there.
func (w *World) ZDBResult(r *workload.Reservation) workload.ZDBResult {
	w.Helper()
	var out workload.ZDBResult
	if err := json.Unmarshal(w.Result(r, workload.StateOK).Data, &out); err != nil {
		w.Fatal(err)
	}
	return out
}

// ZDBAddress is where a namespace is reached.
func ZDBAddress(at workload.ZDBResult) string {
	return net.JoinHostPort(at.IP, strconv.FormatUint(uint64(at.Port), 10))
}

// DialZDB connects to a zdb from the network namespace of that file, until the
// test ends.
func (w *World) DialZDB(namespace, address string) (redis.Conn, error) {
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		return w.DialFrom(namespace)(ctx, network, address)
	}
	conn, err := redis.DialContext(context.Background(), "tcp", address, redis.DialContextFunc(dial),
		redis.DialReadTimeout(patience), redis.DialWriteTimeout(patience))
	if err == nil {
		w.Cleanup(func() { _ = conn.Close() })
	}
	return conn, err
}

// SelectZDB connects to a zdb, and enters a namespace of it: without a password
// when that is empty.
func (w *World) SelectZDB(namespace, address, name, password string) (redis.Conn, error) {
	conn, err := w.DialZDB(namespace, address)
	if err != nil {
		return nil, err
	}
	args := []any{name}
	if password != "" {
		args = append(args, password)
	}
	if _, err := conn.Do("SELECT", args...); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// ZDBServer is what the node says of a zdb container, and whether it has it.
func (n *Node) ZDBServer(container string) (node.ZDBServer, bool) {
	n.w.Helper()
	s, err := n.TryStatus()
	if err != nil {
		return node.ZDBServer{}, false
	}
	for _, z := range s.ZDB {
		if z.Container == container {
			return z, true
		}
	}
	return node.ZDBServer{}, false
}

// OwnContainer is what the node says of a container that it runs for itself.
func (n *Node) OwnContainer(id string) (node.ContainerInfo, bool) {
	n.w.Helper()
	s, err := n.TryStatus()
	if err != nil {
		return node.ContainerInfo{}, false
	}
	for _, c := range s.OwnContainers {
		if c.ID == id {
			return c, true
		}
	}
	return node.ContainerInfo{}, false
}

// Own stands for a container that the node runs for itself, where a
// reservation's is meant.
func Own(id string) *workload.Reservation { return &workload.Reservation{ID: id} }
