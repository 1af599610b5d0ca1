package bus_test

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/threefoldtech/zbus"

	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/bus/broker"
)

const someUUID = "00000000-0000-4000-8000-000000000001"

const queueKey = "works.object@1.0"

// dialRaw speaks redis' protocol to the world without this package.
func (w *world) dialRaw(t *testing.T) redis.Conn {
	t.Helper()
	if w.url == "" {
		w.url = "unix://" + filepath.Join(shortDir(t), "raw.sock")
		listening, err := broker.Listen(w.carrier.(*bus.InProcess), w.url, w.options().Log)
		if err != nil {
			t.Fatal(err)
		}
		background(t, listening.Run)
	}
	c, err := redis.Dial("unix", w.url[len("unix://"):], redis.DialReadTimeout(10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// raw pushes a request and returns the reply, both unchanged; nil when none
// comes in a second.
func (w *world) raw(t *testing.T, req *zbus.Request) *zbus.Response {
	t.Helper()
	frame, err := req.Encode()
	if err != nil {
		t.Fatal(err)
	}
	c := w.dialRaw(t)
	if _, err := c.Do("RPUSH", queueKey, frame); err != nil {
		t.Fatal(err)
	}
	got, err := redis.ByteSlices(c.Do("BLPOP", req.ReplyTo, 1))
	if errors.Is(err, redis.ErrNil) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	rep, err := zbus.LoadResponse(got[1])
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

// takeRequest acts as a server that takes a request and ignores it.
func (p *redisProcess) takeRequest() *zbus.Request {
	p.t.Helper()
	got, err := redis.ByteSlices(p.do("BLPOP", queueKey, 5), nil)
	if err != nil {
		p.t.Fatal(err)
	}
	req, err := zbus.LoadRequest(got[1])
	if err != nil {
		p.t.Fatal(err)
	}
	return req
}
