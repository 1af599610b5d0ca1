package storage

import (
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
)

// Reads is what the module is opened with, as far as it comes from settings.
func Reads(c config.Config) any { return moduleConfig(c, zerolog.Nop()) }
