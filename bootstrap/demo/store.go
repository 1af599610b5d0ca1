package main

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/croft-edge/croft/pkg/workload"
)

// store is the demo's namespace of zdb while it is there.
type store struct {
	file, id string
	at       workload.ZDBResult
	password string
	// outside is a machine that isn't the node, pid zdb's process.
	outside elsewhere
	pid     uint64
}

// values is how many the demo writes.
const values = 200

func (s store) address() string {
	return net.JoinHostPort(s.at.IP, strconv.FormatUint(uint64(s.at.Port), 10))
}

// enter connects from outside the node and selects the namespace.
func (s store) enter(ctx context.Context, password ...string) (redis.Conn, error) {
	conn, err := redis.DialContext(ctx, "tcp", s.address(), redis.DialContextFunc(s.outside.dial), redis.DialReadTimeout(10*time.Second))
	if err != nil {
		return nil, err
	}
	args := []any{s.id}
	for _, p := range password {
		args = append(args, p)
	}
	if _, err := conn.Do("SELECT", args...); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

func value(i int) string { return strings.Repeat(fmt.Sprintf("value %d, ", i), 100) }

// wantValues reads all of them from outside.
func (s store) wantValues(ctx context.Context) error {
	conn, err := s.enter(ctx, s.password)
	if err != nil {
		return err
	}
	defer conn.Close()
	for i := range values {
		got, err := redis.String(conn.Do("GET", fmt.Sprint("key", i)))
		if err != nil {
			return fmt.Errorf("cannot read key%d: %w", i, err)
		}
		if got != value(i) {
			return fmt.Errorf("key%d is %.40q", i, got)
		}
	}
	return nil
}
