package identity

import (
	"github.com/croft-edge/croft/cmd/croftd/internal/config"
)

// Reads is what the module is opened with, as far as it comes from settings.
func Reads(c config.Config) any { return keyFolder(c) }
