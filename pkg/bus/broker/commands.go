package broker

import (
	"context"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/threefoldtech/zbus"

	"github.com/croft-edge/croft/pkg/bus/transport"
	"github.com/croft-edge/croft/pkg/resp"
	"github.com/croft-edge/croft/pkg/supervise"
)

// run answers one command. It refuses commands that calls and reading streams
// don't need.
func (c *client) run(words [][]byte) []byte {
	if len(words) == 0 {
		return appendError("ERR", "empty command")
	}
	name, args := strings.ToUpper(string(words[0])), words[1:]
	switch name {
	case "RPUSH":
		return c.rpush(args)
	case "BLPOP":
		return c.blpop(args)
	case "SUBSCRIBE":
		return c.subscribe(args)
	case "UNSUBSCRIBE":
		return c.unsubscribe(args)
	case "EXPIRE":
		// The bus decides itself how long a queue lives.
		return resp.AppendInt(nil, 1)
	case "PUBLISH", "LPUSH", "LPOP", "RPOP", "BRPOP", "PSUBSCRIBE", "DEL", "KEYS", "MONITOR":
		return appendError("NOPERM", "%s is not allowed here: this broker only takes calls and hands out streams", name)
	default:
		return c.housekeeping(name, args)
	}
}

// housekeeping answers the commands that clients send around their calls.
func (c *client) housekeeping(name string, args [][]byte) []byte {
	switch {
	case name == "PING" && len(c.streams) > 0:
		return resp.AppendBulk(resp.AppendBulk(resp.AppendArray(nil, 2), []byte("pong")), nil)
	case name == "PING":
		return resp.AppendSimple(nil, "PONG")
	case name == "ECHO" && len(args) == 1:
		return resp.AppendBulk(nil, args[0])
	case name == "PUNSUBSCRIBE":
		return resp.AppendInt(resp.AppendNull(resp.AppendBulkString(resp.AppendArray(nil, 3), "punsubscribe")), int64(len(c.streams)))
	case name == "SELECT" && len(args) == 1 && string(args[0]) == "0":
		return resp.AppendSimple(nil, "OK")
	case name == "CLIENT" && len(args) > 1 && strings.HasPrefix(strings.ToUpper(string(args[0])), "SET"):
		return resp.AppendSimple(nil, "OK")
	case name == "COMMAND":
		return resp.AppendArray(nil, 0)
	case name == "HELLO":
		return appendError("NOPROTO", "only version 2 of the protocol is spoken here")
	case name == "AUTH":
		return appendError("ERR", "no password is set: whoever can open the socket may use it")
	case name == "QUIT":
		c.write(resp.AppendSimple(nil, "OK"))
		c.hangUp()
		return nil
	}
	return appendError("ERR", "unknown command or wrong arguments")
}

// rpush accepts requests for served objects.
func (c *client) rpush(args [][]byte) []byte {
	if len(args) != 2 {
		return appendError("ERR", "RPUSH takes an object's queue and one request")
	}
	key := string(args[0])
	if !c.broker.bus.Serves(key) {
		return appendError("NOPERM", "no object is served on that queue")
	}
	if _, err := c.broker.bus.Push(c.ctx, key, args[1], transport.QueueTTL); err != nil {
		return appendError("ERR", "%s", oneLine(err))
	}
	return resp.AppendInt(nil, 1)
}

// blpop hands out replies: nobody can take another's request.
func (c *client) blpop(args [][]byte) []byte {
	if len(args) < 2 || len(args) > 9 {
		return appendError("ERR", "BLPOP takes 1 to 8 reply keys and a timeout")
	}
	seconds, err := strconv.ParseFloat(string(args[len(args)-1]), 64)
	if err != nil || math.IsNaN(seconds) || seconds < 0 || seconds > 3600 {
		return appendError("ERR", "timeout must be 0 to 3600 seconds")
	}
	if seconds == 0 {
		seconds = 3600
	}
	ctx, cancel := context.WithTimeout(c.ctx, time.Duration(seconds*float64(time.Second)))
	defer cancel()
	keys := make([]string, 0, len(args)-1)
	for _, key := range args[:len(args)-1] {
		if transport.CheckReplyKey(string(key)) != nil {
			return appendError("NOPERM", "only reply keys, which are UUIDs, can be popped")
		}
		keys = append(keys, string(key))
	}
	return c.waitReply(ctx, keys)
}

func (c *client) waitReply(ctx context.Context, keys []string) []byte {
	key, frame, err := c.broker.bus.Pop(ctx, keys)
	switch {
	case err == nil:
		return resp.AppendBulk(resp.AppendBulk(resp.AppendArray(nil, 2), []byte(key)), frame)
	case ctx.Err() != nil:
		return resp.AppendNullArray(nil)
	}
	return appendError("ERR", "%s", oneLine(err))
}

func (c *client) subscribe(args [][]byte) []byte {
	if len(args) == 0 {
		return appendError("ERR", "SUBSCRIBE takes channels")
	}
	for _, arg := range args {
		channel := string(arg)
		if len(channel) > maxWord {
			return appendError("ERR", "a channel's name has at most %d bytes", maxWord)
		}
		if c.streams[channel] == nil {
			if len(c.streams) >= maxStreams {
				return appendError("ERR", "at most %d channels are allowed", maxStreams)
			}
			if err := c.start(channel); err != nil {
				return appendError("ERR", "%s", oneLine(err))
			}
			continue
		}
		c.write(confirmation("subscribe", channel, len(c.streams)))
	}
	return nil
}

// start subscribes to a channel. The confirmation is sent before the first event.
func (c *client) start(channel string) error {
	ctx, stop := context.WithCancel(c.ctx)
	events, err := c.broker.bus.Subscribe(ctx, channel)
	if err != nil {
		stop()
		return err
	}
	s := &stream{stop: stop, done: make(chan struct{})}
	c.streams[channel] = s
	c.write(confirmation("subscribe", channel, len(c.streams)))
	go func() {
		defer close(s.done)
		if !supervise.Do(c.broker.log, "bus broker", func() { c.forward(channel, events) }) {
			c.hangUp()
		}
	}()
	return nil
}

// forward writes events until there are no more, or the client is gone.
func (c *client) forward(channel string, events <-chan zbus.Event) {
	for event := range events {
		message := resp.AppendBulk(resp.AppendBulk(resp.AppendArray(nil, 3), []byte("message")), []byte(channel))
		if !c.write(resp.AppendBulk(message, event)) {
			return
		}
	}
}

func (c *client) unsubscribe(args [][]byte) []byte {
	channels := make([]string, 0, len(args))
	for _, arg := range args {
		channels = append(channels, string(arg))
	}
	if len(args) == 0 {
		for channel := range c.streams {
			channels = append(channels, channel)
		}
	}
	if len(channels) == 0 {
		return resp.AppendInt(resp.AppendNull(resp.AppendBulkString(resp.AppendArray(nil, 3), "unsubscribe")), 0)
	}
	var answer []byte
	for _, channel := range channels {
		if s := c.streams[channel]; s != nil {
			s.stop()
			<-s.done
			delete(c.streams, channel)
		}
		answer = append(answer, confirmation("unsubscribe", channel, len(c.streams))...)
	}
	return answer
}

func confirmation(kind, channel string, n int) []byte {
	return resp.AppendInt(resp.AppendBulk(resp.AppendBulk(resp.AppendArray(nil, 3), []byte(kind)), []byte(channel)), int64(n))
}
