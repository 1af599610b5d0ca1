package tasks

import (
	"time"

	"github.com/rs/zerolog"
)

// LogTime logs how long containerd and runc took for a step of a container's making since began.
func LogTime(log zerolog.Logger, id, step string, began time.Time) {
	log.Debug().Str("id", id).Str("type", "container").Str("step", step).Dur("containerd", time.Since(began)).Msg("containerd has answered")
}
