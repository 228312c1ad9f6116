//go:build !without_newer_groups

package franz

import "github.com/twmb/franz-go/pkg/kgo"

func newerGroups() kgo.Opt { return kgo.ServerSideBalancer() }
