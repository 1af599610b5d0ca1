package flisttest

import (
	"context"
	"net"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/flist"
	"github.com/croft-edge/croft/zdb"
	"github.com/croft-edge/croft/zdb/loop"
)

// ZDB is a zdb on loopback.
type ZDB struct {
	// Host is its HOST:PORT.
	Host   string
	cancel context.CancelFunc
	ended  chan error
	data   *zdb.Server
}

// StartZDB starts an empty zdb with its data in a folder.
func StartZDB(folder string) (*ZDB, error) {
	data, err := zdb.New(zdb.Config{Data: folder, Mode: zdb.ModeUser, Log: zerolog.Nop()})
	if err != nil {
		return nil, err
	}
	l, err := loop.New(loop.Config{Handler: data, Log: zerolog.Nop()})
	if err != nil {
		return nil, err
	}
	data.Attach(l)
	ctx, cancel := context.WithCancel(context.Background())
	z := &ZDB{cancel: cancel, ended: make(chan error, 1), data: data}
	go func() { z.ended <- l.Run(ctx) }()
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, stopped(z, err)
	}
	defer listener.Close()
	file, err := listener.(*net.TCPListener).File()
	if err != nil {
		return nil, stopped(z, err)
	}
	z.Host = listener.Addr().String()
	if err := l.Listen(file, false); err != nil {
		return nil, stopped(z, err)
	}
	return z, nil
}

func stopped(z *ZDB, err error) error {
	_ = z.Close()
	return err
}

// Close ends it.
func (z *ZDB) Close() error {
	z.cancel()
	err := <-z.ended
	if closed := z.data.Close(); err == nil {
		err = closed
	}
	return err
}

// Put makes a namespace with a password, which may be empty, and puts blocks into it.
func (z *ZDB) Put(namespace, password string, blocks map[flist.Hash][]byte) error {
	const patience = time.Minute
	c, err := redis.Dial("tcp", z.Host, redis.DialConnectTimeout(patience), redis.DialReadTimeout(patience), redis.DialWriteTimeout(patience))
	if err != nil {
		return errors.Wrap(err, "cannot reach the zdb")
	}
	defer c.Close()
	commands := [][]any{{"NSNEW", namespace}}
	selects := []any{"SELECT", namespace}
	if password != "" {
		commands = append(commands, []any{"NSSET", namespace, "password", password}, []any{"NSSET", namespace, "public", "0"})
		selects = append(selects, password)
	}
	commands = append(commands, selects)
	for id, stored := range blocks {
		commands = append(commands, []any{"SET", id[:], stored})
	}
	for _, command := range commands {
		if _, err := c.Do(command[0].(string), command[1:]...); err != nil {
			return errors.Wrapf(err, "cannot do %v", command[0])
		}
	}
	return nil
}
