// Package secret gets secrets, such as the keys of an S3 server, from where only root can put them: a folder of files, or the
// credentials that systemd hands to a service. It keeps nothing and writes nothing. Secrets are never in settings, and a
// Value shows itself in no log, error, dump or document.
package secret
