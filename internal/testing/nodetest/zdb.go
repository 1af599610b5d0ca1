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

// ZDB is a reservation for a 0-db namespace of the world's user: by default 1 GiB of SSD in user mode
// without a password; change may modify it.
func (r *Reservations) ZDB(n *Node, change func(*workload.ZDB)) *workload.Reservation {
	r.Helper()
	return r.ZDBOf(r.User, n, change)
}

// ZDBOf is ZDB of any user. A plain password is sealed to the node.
func (r *Reservations) ZDBOf(user sign.KeyPair, n *Node, change func(*workload.ZDB)) *workload.Reservation {
	r.Helper()
	data := workload.ZDB{Size: 1, Mode: workload.ZDBUser, DiskType: workload.SSD}
	if change != nil {
		change(&data)
	}
	if data.PlainPassword != "" {
		data.Password = r.SealPassword(n, user, data.PlainPassword)
	}
	raw, err := json.Marshal(data)
	if err != nil {
		r.Fatal(err)
	}
	signed := &workload.Reservation{NodeID: n.ID, Type: workload.TypeZDB, Created: time.Now(), Duration: time.Hour, Data: raw}
	if err := signed.Sign(user.Private()); err != nil {
		r.Fatal(err)
	}
	return signed
}

// SealPassword seals the password of a user's namespace to the node.
func (r *Reservations) SealPassword(n *Node, user sign.KeyPair, password string) string {
	r.Helper()
	sealed, err := workload.SealSecret(n.ID, user.ID(), workload.TypeZDB, "password", []byte(password))
	if err != nil {
		r.Fatal(err)
	}
	return sealed
}

// ZDBResult waits for and decodes the result of a deployed namespace.
func (e *ExplorerServer) ZDBResult(r *workload.Reservation) workload.ZDBResult {
	e.Helper()
	var out workload.ZDBResult
	if err := json.Unmarshal(e.Result(r, workload.StateOK).Data, &out); err != nil {
		e.Fatal(err)
	}
	return out
}

// ZDBAddress is the address of a namespace.
func ZDBAddress(at workload.ZDBResult) string {
	return net.JoinHostPort(at.IP, strconv.FormatUint(uint64(at.Port), 10))
}

// DialZDB connects to a zdb from the network namespace of that file, until the
// test ends.
func (t *Traffic) DialZDB(namespace, address string) (redis.Conn, error) {
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		return t.DialFrom(namespace)(ctx, network, address)
	}
	conn, err := redis.DialContext(context.Background(), "tcp", address, redis.DialContextFunc(dial),
		redis.DialReadTimeout(patience), redis.DialWriteTimeout(patience))
	if err == nil {
		t.Cleanup(func() { _ = conn.Close() })
	}
	return conn, err
}

// SelectZDB connects to a zdb and selects a namespace, without a password when that is empty.
func (t *Traffic) SelectZDB(namespace, address, name, password string) (redis.Conn, error) {
	conn, err := t.DialZDB(namespace, address)
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

// ZDBServer is a zdb container in the node's status, and whether it is there.
func (c *Containers) ZDBServer(container string) (node.ZDBServer, bool) {
	c.tb.Helper()
	s, err := c.status()
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

// OwnContainer is one of the node's own containers in its status, and whether it is there.
func (c *Containers) OwnContainer(id string) (node.ContainerInfo, bool) {
	c.tb.Helper()
	s, err := c.status()
	if err != nil {
		return node.ContainerInfo{}, false
	}
	for _, it := range s.OwnContainers {
		if it.ID == id {
			return it, true
		}
	}
	return node.ContainerInfo{}, false
}

// Own wraps the ID of one of the node's own containers as a reservation.
func Own(id string) *workload.Reservation { return &workload.Reservation{ID: id} }
