package logs

import (
	"context"
	"os"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/carrier"
	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/node"
)

// server does what requests ask for.
type server struct {
	config  ServeConfig
	started time.Time
	carried *carried
	stop    func()
	log     zerolog.Logger
}

// answer answers a line.
func (s *server) answer(ctx context.Context, line []byte) any {
	r, err := carrier.Guard(s.log, func() (response, error) {
		r, err := parseRequest(line)
		if err != nil {
			return response{}, err
		}
		return s.do(ctx, r)
	})
	r.Version, r.Error = protocol, carrier.FailureOf(err)
	return r
}

func (s *server) do(ctx context.Context, r request) (response, error) {
	switch r.Op {
	case opInfo:
		return response{Info: s.info()}, nil
	case opStop:
		s.stop()
		return response{Info: s.info()}, nil
	case opOpen:
		fifos, err := s.carried.open(ctx, r.ID, r.User)
		return response{FIFOs: &fifos}, err
	case opDrop:
		return response{}, s.carried.drop(ctx, r.ID, r.KeepFiles)
	case opList:
		return response{IDs: s.carried.list()}, nil
	}
	return response{}, node.Errorf(node.Invalid, "cannot do %q: there is no such operation", r.Op)
}

func (s *server) info() *Info {
	return &Info{
		PID: os.Getpid(), Protocol: protocol, Version: s.config.Version, Started: s.started, Memory: carrier.RSSAnon(),
		Containers: len(s.carried.list()), Dir: s.config.Dir, Size: s.config.Size, Files: s.config.Files, Limits: limit.Times(),
	}
}
