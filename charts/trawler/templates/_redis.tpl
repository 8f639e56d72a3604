{{/* Where Redis is, for operator and crawlers. */}}

{{- define "trawler.redisUrl" -}}
{{- if .Values.redis.external.url -}}
{{ .Values.redis.external.url }}
{{- else -}}
redis://trawler-{{ include "trawler.instance" . }}-owner@{{ include "trawler.redisName" . }}:6379/0
{{- end }}
{{- end }}

{{- define "trawler.redisCrawlerUrl" -}}
{{- if .Values.redis.external.url -}}
{{ default .Values.redis.external.url .Values.redis.external.crawlerUrl }}
{{- else -}}
redis://trawler-{{ include "trawler.instance" . }}-crawler@{{ include "trawler.redisName" . }}:6379/0
{{- end }}
{{- end }}

{{/* The Secret with the passwords: the one that the operator makes, or the one that is there. */}}
{{- define "trawler.redisSecret" -}}
{{- if .Values.redis.external.url }}{{ .Values.redis.external.existingSecret }}{{ else }}{{ include "trawler.redisName" . }}{{ end }}
{{- end }}

{{- define "trawler.redisConfig" -}}
bind * -::*
port 6379
# Who may do what is in the ACL file; protected mode would refuse all from outside.
protected-mode no
aclfile /etc/redis/users/users.acl
dir /data
# What was answered may be lost for a second if the machine dies; the queue notices, and is made anew from the store.
appendonly yes
appendfsync everysec
save ""
# Nothing is evicted: a task or a record that vanished would be one that is never crawled.
maxmemory {{ .Values.redis.maxMemory }}
maxmemory-policy noeviction
{{- with .Values.redis.extraConfig }}
# redis.extraConfig
{{ . | trim }}
{{- end }}
{{- end }}
