package s3

import (
	"sync"

	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/croft-edge/croft/provision/persist/secret"
)

// keyring gives minio-go a server's keys, as they were when the instance was last brought up.
type keyring struct {
	secrets secret.Provider
	name    string

	mu             sync.Mutex
	access, secret secret.Value
}

// read reads the keys anew.
func (k *keyring) read() error {
	access, err := k.secrets.Secret(k.name + accessKey)
	if err != nil {
		return err
	}
	key, err := k.secrets.Secret(k.name + secretKey)
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.access, k.secret = access, key
	return nil
}

// Retrieve implements credentials.Provider.
func (k *keyring) Retrieve() (credentials.Value, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return credentials.Value{AccessKeyID: k.access.Text(), SecretAccessKey: k.secret.Text(), SignerType: credentials.SignatureV4}, nil
}

// RetrieveWithCredContext implements credentials.Provider.
func (k *keyring) RetrieveWithCredContext(*credentials.CredContext) (credentials.Value, error) {
	return k.Retrieve()
}

// IsExpired implements credentials.Provider: the keys are asked for with each request.
func (k *keyring) IsExpired() bool { return true }
