package config

import (
	"os"

	"github.com/croft-edge/croft/provision/persist/secret"
)

// Secrets gives the node's secrets: systemd's credentials, and those of the operator's folder.
func (c Config) Secrets() secret.Provider {
	return secret.First(secret.Credentials(os.Getenv(secret.CredentialsVariable)), secret.Folder(c.SecretsDir))
}
