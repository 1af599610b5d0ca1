package broker

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/bus/transport"
	"github.com/croft-edge/croft/pkg/resp"
	"github.com/croft-edge/croft/pkg/supervise"
)

const (
	// writeTimeout is how long a client may take to read an answer or event.
	writeTimeout = 5 * time.Second
	// maxStreams is how many channels one connection may subscribe to.
	maxStreams = 1024
	// maxArguments is how many words a command may have.
	maxArguments = 64
	// maxWord is the size of a word that isn't a frame, maxLine of the line before a word.
	maxWord = 512
	maxLine = 32
)

// client is one connection. Two goroutines read and run its commands, so that
// a hang-up ends a command's wait.
type client struct {
	broker *Broker
	conn   net.Conn
	ctx    context.Context
	cancel context.CancelFunc
	// streams are the subscribed channels; only the running goroutine uses them.
	streams map[string]*stream

	writing sync.Mutex
	reading sync.WaitGroup
}

type stream struct {
	stop context.CancelFunc
	done chan struct{}
}

func newClient(b *Broker, conn net.Conn) *client {
	c := &client{broker: b, conn: conn, streams: map[string]*stream{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

func (c *client) hangUp() {
	c.cancel()
	_ = c.conn.Close()
}

func (c *client) serve() {
	defer func() {
		c.hangUp()
		for _, s := range c.streams {
			<-s.done
		}
		c.reading.Wait()
	}()
	commands := make(chan [][]byte)
	c.reading.Go(func() {
		defer close(commands)
		defer c.cancel()
		supervise.Do(c.broker.log, "bus broker", func() { c.read(commands) })
	})
	for words := range commands {
		if !c.write(c.run(words)) {
			return
		}
	}
}

func (c *client) read(commands chan<- [][]byte) {
	r := resp.NewReader(c.conn, commandLimits())
	for {
		words, err := r.Next()
		if err != nil {
			var lost net.Error
			if !errors.As(err, &lost) && c.ctx.Err() == nil {
				c.write(appendError("ERR", "protocol: %s", oneLine(err)))
			}
			return
		}
		select {
		case commands <- words:
		case <-c.ctx.Done():
			return
		}
	}
}

// commandLimits are the limits of one command. Requests are frames: at most one word is
// as large as one.
func commandLimits() resp.Limits {
	return resp.Limits{
		Argument: transport.MaxFrame, Arguments: maxArguments, Large: maxWord, Strict: true,
		Request: transport.MaxFrame + maxArguments*(maxWord+maxLine) + maxLine,
	}
}

// appendError encodes an error with a code and a text without line breaks.
func appendError(code, format string, args ...any) []byte {
	return resp.AppendError(nil, code+" "+fmt.Sprintf(format, args...))
}

// oneLine keeps an error's text from breaking the protocol.
func oneLine(err error) string {
	text := []byte(err.Error())
	for i, b := range text {
		if b < ' ' {
			text[i] = ' '
		}
	}
	return string(text)
}

// write reports whether the client has received answer.
func (c *client) write(answer []byte) bool {
	if len(answer) == 0 {
		return c.ctx.Err() == nil
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	_ = c.conn.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, err := c.conn.Write(answer); err != nil {
		c.hangUp()
		return false
	}
	return true
}
