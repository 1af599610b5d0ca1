package debug

import (
	"time"

	"github.com/rs/zerolog"
)

// logEvery is the shortest time between two log lines of the same kind about one stream.
const logEvery = time.Minute

// outageLog writes a stream's failures to the node's log, at most one line of each kind
// every logEvery. Failed connections and dropped lines are different kinds.
type outageLog struct {
	id  string
	log zerolog.Logger
	// lastFailure and lastDrop are the times of the last logged failure and drop.
	lastFailure, lastDrop time.Time
	// failing is whether a failure was logged, and no recovery since.
	failing bool
}

// failed logs that there is no connection.
func (o *outageLog) failed(cause string, dropped uint64) {
	if time.Since(o.lastFailure) < logEvery {
		return
	}
	o.lastFailure, o.failing = time.Now(), true
	o.log.Warn().Str("id", o.id).Str("type", "debug").Str("step", "publish").Str("error", cause).Uint64("dropped", dropped).
		Msg("cannot publish log lines: tried again")
}

// recovered logs that there is a connection again, after a logged failure.
func (o *outageLog) recovered(address string) {
	if !o.failing {
		return
	}
	o.failing = false
	o.log.Info().Str("id", o.id).Str("type", "debug").Str("step", "publish").Str("address", address).Msg("log stream goes on")
}

// dropped logs that a stream with a connection is too slow.
func (o *outageLog) dropped(lines uint64) {
	if time.Since(o.lastDrop) < logEvery {
		return
	}
	o.lastDrop = time.Now()
	o.log.Warn().Str("id", o.id).Str("type", "debug").Str("step", "publish").Uint64("dropped", lines).
		Msg("log lines were dropped: the stream's redis server doesn't keep up")
}
